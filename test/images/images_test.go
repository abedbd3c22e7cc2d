package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// upstream returns the names in the Kubernetes module's table of images.
func upstream(t *testing.T) []string {
	t.Helper()
	dir, err := Module(context.Background(), "../..", "k8s.io/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "test/utils/image/manifest.go"))
	if err != nil {
		t.Fatal(err)
	}
	registries := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t\t(\w+): +"([^"]+)",$`).FindAllStringSubmatch(string(text), -1) {
		registries[m[1]] = m[2]
	}
	var names []string
	entry := regexp.MustCompile(`configs\[\w+\] = Config\{list\.(\w+), "([^"]+)", "([^"]+)"\}`)
	for _, m := range entry.FindAllStringSubmatch(string(text), -1) {
		names = append(names, registries[m[1]]+"/"+m[2]+":"+m[3])
	}
	return names
}

// TestEveryImageOfUpstreamIsMadeOrMissing compares our table with that of the Kubernetes module.
func TestEveryImageOfUpstreamIsMadeOrMissing(t *testing.T) {
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, img := range table.Of("conformance") {
		for _, name := range img.Names {
			made[name] = true
		}
	}
	names := upstream(t)
	if len(names) < 20 {
		t.Fatalf("upstream's table has only %q: its form has changed", names)
	}
	for _, name := range names {
		if made[name] == (table.Missing[name] != "") {
			t.Errorf("the table must list %s as an image, or as missing with a reason", name)
		}
	}
	for name := range table.Missing {
		if !slices.Contains(names, name) {
			t.Errorf("the table lists %s as missing, but upstream does not have it", name)
		}
	}
}

func TestParse(t *testing.T) {
	cases := map[string]string{
		"image without suite":    "images: [{names: [a.b/c:1]}]",
		"name without registry":  "images: [{names: ['c:1'], for: [x]}]",
		"name without tag":       "images: [{names: [a.b/c], for: [x]}]",
		"name twice in a suite":  "images: [{names: [a.b/c:1], for: [x]}, {names: [a.b/c:1], for: [other, x]}]",
		"also listed as missing": "{images: [{names: [a.b/c:1], for: [x]}], missing: {'a.b/c:1': why}}",
		"its base comes later":   "images: [{names: [a.b/c:1], for: [x], base: a.b/d:1}, {names: [a.b/d:1], for: [x]}]",
		"an unknown field":       "images: [{names: [a.b/c:1], for: [x], entrypont: [y]}]",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse([]byte(text)); err == nil {
				t.Error("the table is accepted")
			}
		})
	}
	got, err := parse([]byte("images: [{names: [a.b/c:1], for: [x]}, {names: [a.b/d:1], for: [w], base: 'a.b/c:1'}]"))
	if err != nil || len(got.Of("w")) != 2 || len(got.Of("x")) != 1 || len(got.Of("z")) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// packed returns the files of a package in the form in which dpkg-deb writes them.
func packed(t *testing.T, headers ...tar.Header) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &out
}

// listed returns the content of a layer: the link target or the data of each path.
func listed(t *testing.T, layer []byte) (files map[string]string, order []string) {
	t.Helper()
	files = map[string]string{}
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, order
		}
		data, readErr := io.ReadAll(r)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		files[h.Name] = h.Linkname + string(data)
		order = append(order, h.Name)
	}
}

func TestALayerOfPackages(t *testing.T) {
	one := func() []byte {
		tr := newTree()
		err := tr.unpack(packed(t,
			tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
			tar.Header{Name: "./bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755},
			tar.Header{Name: "./bin/other", Typeflag: tar.TypeReg, Mode: 0o755, Uid: 7},
			tar.Header{Name: "./lib/x.so", Typeflag: tar.TypeSymlink, Linkname: "x.so.1"},
			tar.Header{Name: "./usr/share/doc/x/copyright", Typeflag: tar.TypeReg, Mode: 0o644},
		))
		if err != nil {
			t.Fatal(err)
		}
		tr.keepPrograms([]string{"busybox"})
		tr.skeleton([]string{"me:x:1:1::/:/bin/sh"}, nil)
		tr.text("/bin/ls", 0o755, []byte("own"))
		tr.applets([]string{"bin/ls", "usr/bin/id"})
		data, err := tr.write()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	layer := one()
	if !bytes.Equal(layer, one()) {
		t.Error("the same packages result in a different layer")
	}
	files, order := listed(t, layer)
	for name, want := range map[string]string{
		"bin": "usr/bin", "usr/bin/busybox": "./bin/busybox", "usr/lib/x.so": "x.so.1", "usr/bin/ls": "own",
		"usr/bin/id": "usr/bin/busybox",
	} {
		if got, is := files[name]; !is || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(files["etc/passwd"], "\nme:x:1:1:") {
		t.Errorf("/etc/passwd lacks user me: %q", files["etc/passwd"])
	}
	for name := range maps.Keys(files) {
		if strings.Contains(name, "doc") || strings.Contains(name, "other") {
			t.Errorf("the layer contains %s", name)
		}
	}
	if slices.Index(order, "usr/bin/") > slices.Index(order, "usr/bin/busybox") ||
		slices.Index(order, "usr/bin/id") < slices.Index(order, "usr/bin/busybox") {
		t.Errorf("directories must come before files, and links after them: %q", order)
	}
}

func TestThePackagesOfASimulation(t *testing.T) {
	dir := t.TempDir()
	d := &debian{dir: dir}
	if err := os.MkdirAll(filepath.Dir(d.archive("x")), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.archive("curl_1%3a7.88-1_amd64.deb"), []byte("deb"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := d.pin(
		[]byte("Inst curl (1:7.88-1 Debian:12/stable [amd64])\nConf curl (1:7.88-1 Debian:12/stable [amd64])\n"),
	)
	if err != nil || len(got) != 1 || got[0].File != "curl_1%3a7.88-1_amd64.deb" || !d.downloaded(got) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := os.WriteFile(d.archive(got[0].File), []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d.downloaded(got) {
		t.Error("a changed package is accepted")
	}
	if _, err := d.pin([]byte("Inst wget (1.21 Debian:12/stable [amd64])\n")); err == nil {
		t.Error("a package that was not downloaded is accepted")
	}
	if _, err := d.pin(nil); err == nil {
		t.Error("an output without packages is accepted")
	}
}

func TestImagesOfASuite(t *testing.T) {
	table, err := parse([]byte(`images:
- {names: ["a.b/base:1"], for: [x]}
- {names: ["a.b/base:1"], for: [other], command: [sh]}
- {names: ["a.b/one:1"], for: [x], base: "a.b/base:1"}
- {names: ["a.b/two:1"], for: [z], base: "a.b/one:1"}
- {names: ["a.b/three:1"], for: [other], base: "a.b/base:1"}
`))
	if err != nil {
		t.Fatal(err)
	}
	for suite, want := range map[string]string{"x": "base one", "other": "base three", "w": ""} {
		var got []string
		for _, img := range table.Of(suite) {
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(img.Names[0], "a.b/"), ":1"))
			if len(img.Command) > 0 != (suite == "other" && len(got) == 1) {
				t.Errorf("suite %s has the other suite's %s", suite, img.Names[0])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("suite %s has %q, want %q", suite, got, want)
		}
	}
}

// TestOldListsOfPackagesAreUpdated: the machine's lists may name versions that the archive no longer has, for example
// if the machine's image is weeks old. Then new lists are downloaded, once.
func TestOldListsOfPackagesAreUpdated(t *testing.T) {
	dir := t.TempDir()
	machine, programs := filepath.Join(dir, "machine"), filepath.Join(dir, "bin")
	for path, text := range map[string]string{
		filepath.Join(machine, "deb_main_Packages"): "",
		// This apt-get finds packages only with its own lists, and counts how often it downloads these.
		filepath.Join(programs, "apt-get"): `#!/bin/sh
case "$*" in
*update) echo update >>"$CALLS" && : >"$OWN/state/lists/deb_main_Packages" ;;
*Dir::State::lists*--download-only*) : >"$OWN/cache/archives/busybox_1.2_amd64.deb" ;;
*Dir::State::lists*--simulate*) echo "Inst busybox (1.2 Debian:12 [amd64])" ;;
*) echo "404 Not Found" >&2; exit 100 ;;
esac
`,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	calls, own := filepath.Join(dir, "calls"), filepath.Join(dir, "own")
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	t.Setenv("CALLS", calls)
	t.Setenv("OWN", own)
	d := &debian{dir: own, machine: machine, locked: map[string][]pinned{}}
	for _, wish := range [][]string{{"busybox"}, {"busybox", "busybox-more"}} {
		files, err := d.get(context.Background(), wish)
		if err != nil || len(files) != 1 || filepath.Base(files[0]) != "busybox_1.2_amd64.deb" {
			t.Errorf("for %v: got %v, %v", wish, files, err)
		}
	}
	if got, err := os.ReadFile(calls); err != nil || string(got) != "update\n" {
		t.Errorf("the lists were updated: %q, %v; want once", got, err)
	}
}
