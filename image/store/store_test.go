//go:build linux

package store_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/archive"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/image/store"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

const childVariable = "CAPSTAN_TEST_STORE"

// TestMain lets this binary load an archive into a store, or remove a name, and be killed meanwhile.
func TestMain(m *testing.M) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := store.Open(store.Options{Dir: dir, MinFree: 1})
	if err == nil {
		defer s.Close()
		if os.Args[1] == "remove" {
			err = s.Untag(os.Args[2])
		} else {
			var f *os.File
			if f, err = os.Open(os.Args[2]); err == nil {
				_, err = archive.Load(context.Background(), s, f, "", func(string) {})
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "images")
	}
	if o.MinFree == 0 {
		o.MinFree = 1
	}
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func load(t testing.TB, s *store.Store, data []byte) []image.Image {
	t.Helper()
	all, err := archive.Load(context.Background(), s, bytes.NewReader(data), "", func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLoadSaveAndLoad(t *testing.T) {
	for name, c := range map[string]struct {
		pack func([]byte) []byte
		as   func(made, testing.TB, string) []byte
	}{
		"an OCI archive":                  {same, made.layout},
		"an OCI archive packed by gzip":   {gz, made.layout},
		"an OCI archive packed by zstd":   {zst, made.layout},
		"a docker archive":                {same, made.docker},
		"a docker archive packed by gzip": {gz, made.docker},
		"an archive that is packed as a whole": {same, func(m made, t testing.TB, n string) []byte {
			return gz(m.docker(t, n))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "images")
			s := open(t, store.Options{Dir: dir})
			img := makeImage(t, c.pack, nil, tarOf("a", "1"), tarOf("b/c", "2"))
			got := load(t, s, c.as(img, t, "web:1"))
			if len(got) != 1 || got[0].Names[0] != "docker.io/library/web:1" || len(got[0].Layers) != 2 {
				t.Fatalf("loaded %+v", got)
			}
			data, err := os.ReadFile(filepath.Join(dir, "layers", got[0].Layers[1], "b", "c"))
			if err != nil || string(data) != "2" {
				t.Fatalf("the second layer has %q, %v", data, err)
			}
			var saved, again bytes.Buffer
			for _, to := range []*bytes.Buffer{&saved, &again} {
				if err := archive.Save(s, to, []string{"docker.io/library/web:1"}); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(saved.Bytes(), again.Bytes()) {
				t.Error("two archives of the same image differ")
			}
			other := open(t, store.Options{})
			if back := load(t, other, saved.Bytes()); back[0].Digest != got[0].Digest || back[0].Names[0] != got[0].Names[0] {
				t.Errorf("the saved image was loaded as %+v, was %+v", back[0], got[0])
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	one := tarOf("a", "1")
	zeros := gz(make([]byte, 80<<20))
	for name, c := range map[string]struct {
		data func(t *testing.T) []byte
		want string
	}{
		"a layer that differs from the configuration": {func(t *testing.T) []byte {
			return makeImage(t, same, func(c *v1.ConfigFile, _ *v1.Manifest) {
				c.RootFS.DiffIDs[0], _ = v1.NewHash(digest([]byte("other")))
			}, one).layout(t, "x:1")
		}, "but the image's configuration says"},
		"a blob that differs from its name": {func(t *testing.T) []byte {
			m := makeImage(t, same, nil, one)
			data := m.layout(t, "x:1")
			return bytes.Replace(data, []byte("1\x00\x00"), []byte("2\x00\x00"), 1)
		}, "damaged"},
		"an archive that is cut off": {func(t *testing.T) []byte {
			data := makeImage(t, same, nil, one).layout(t, "x:1")
			return data[:len(data)-4000]
		}, "ends in the middle"},
		"a packed layer that is cut off": {func(t *testing.T) []byte {
			return makeImage(t, func(l []byte) []byte { p := gz(l); return p[:len(p)-9] }, nil, one).layout(t, "x:1")
		}, "damaged"},
		"zeros": {func(t *testing.T) []byte {
			return makeImage(t, func([]byte) []byte { return zeros }, nil, one).layout(t, "x:1")
		}, "that is a bomb"},
		"zeros beyond the limit": {func(t *testing.T) []byte {
			return makeImage(t, gz, nil, tarOf("z", strings.Repeat("\x00", 3<<20))).layout(t, "x:1")
		}, "holds more than"},
		"another platform": {func(t *testing.T) []byte {
			return makeImage(t, same, func(c *v1.ConfigFile, _ *v1.Manifest) { c.Architecture = "vax" }, one).layout(t, "x:1")
		}, "the image is for linux/vax"},
		"more layers than one mount accepts": {func(t *testing.T) []byte {
			return makeImage(t, same, func(c *v1.ConfigFile, m *v1.Manifest) {
				for range 127 {
					c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, c.RootFS.DiffIDs[0])
					m.Layers = append(m.Layers, m.Layers[0])
				}
			}, one).layout(t, "x:1")
		}, "has 128 layers"},
		"a layer without a diff id": {func(t *testing.T) []byte {
			return makeImage(t, same, func(c *v1.ConfigFile, _ *v1.Manifest) { c.RootFS.DiffIDs = nil }, one).layout(t, "x:1")
		}, "lists 0"},
		"a missing layer": {func(t *testing.T) []byte {
			m := makeImage(t, same, nil, one)
			m.layers = nil
			return m.layout(t, "x:1")
		}, "is missing"},
		"no name": {func(t *testing.T) []byte { return makeImage(t, same, nil, one).layout(t, "latest") }, "has no name"},
		"an invalid name": {func(t *testing.T) []byte {
			return makeImage(t, same, nil, one).layout(t, "UPPER:1")
		}, "is not the name of an image"},
		"no images":   {func(*testing.T) []byte { return tarOf("a", "1") }, "neither index.json nor manifest.json"},
		"plain text":  {func(*testing.T) []byte { return []byte("hello") }, "not an archive of images"},
		"broken JSON": {func(*testing.T) []byte { return tarOf("index.json", "{") }, "can't be read"},
		"a layer with a device": {func(t *testing.T) []byte {
			var out bytes.Buffer
			w := tar.NewWriter(&out)
			w.WriteHeader(&tar.Header{Name: "dev/sda", Typeflag: tar.TypeBlock, Devmajor: 8})
			w.Close()
			return makeImage(t, same, nil, out.Bytes()).layout(t, "x:1")
		}, "is a device"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "images")
			s := open(t, store.Options{Dir: dir, Limits: layer.Limits{Bytes: 2 << 20}})
			_, err := archive.Load(context.Background(), s, bytes.NewReader(c.data(t)), "", func(string) {})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if left := leftovers(t, dir); left != "" {
				t.Errorf("files are left in the store: %s", left)
			}
			if all := s.List(); len(all) != 0 {
				t.Errorf("the store has %+v", all)
			}
		})
	}
}

// leftovers lists what a store contains in addition to its own files.
func leftovers(t testing.TB, dir string) string {
	t.Helper()
	var left []string
	for _, pattern := range []string{"layers/*", "layers/.*", "blobs/sha256/*", "meta/*", "work/blob-*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	return strings.Join(left, " ")
}

func TestImagesShareLayers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, store.Options{Dir: dir})
	base := tarOf("a", "1")
	first := load(t, s, makeImage(t, same, nil, base, tarOf("b", "2")).layout(t, "one:1"))[0]
	second := load(t, s, makeImage(t, gz, nil, base, tarOf("c", "3")).layout(t, "two:1"))[0]
	if first.Layers[0] != second.Layers[0] || first.Layers[1] == second.Layers[1] {
		t.Errorf("layers %v and %v", first.Layers, second.Layers)
	}
	if err := s.Untag("docker.io/library/one:1"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		_, err := os.Stat(filepath.Join(dir, "layers", first.Layers[i]))
		if (err == nil) != want {
			t.Errorf("layer %d of the removed image exists: %v", i, err == nil)
		}
	}
	if err := s.Untag("docker.io/library/two:1"); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); left != "" {
		t.Errorf("files are left in the store: %s", left)
	}
}

// An image can name another image's layer in its configuration, but gets it only with a blob that has that content.
func TestALayerIsNotTakenByItsDiffIDAlone(t *testing.T) {
	s := open(t, store.Options{})
	secret := tarOf("secret", "hunter2")
	load(t, s, makeImage(t, same, nil, secret).layout(t, "private:1"))
	thief := makeImage(t, same, func(c *v1.ConfigFile, _ *v1.Manifest) {
		c.RootFS.DiffIDs[0], _ = v1.NewHash(digest(secret))
	}, tarOf("mine", "1"))
	_, err := archive.Load(context.Background(), s, bytes.NewReader(thief.layout(t, "thief:1")), "", func(string) {})
	if err == nil || !strings.Contains(err.Error(), "but the image's configuration says") {
		t.Errorf("error %v", err)
	}
}

func TestADamagedBlobIsSaidAndRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	s := open(t, store.Options{Dir: dir})
	img := makeImage(t, gz, nil, tarOf("a", "1"))
	got := load(t, s, img.layout(t, "web:1"))[0]
	if err := os.RemoveAll(filepath.Join(dir, "layers", got.Layers[0])); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digest(img.layers[0]), "sha256:"))
	if err := os.WriteFile(blob, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, store.Options{Dir: dir})
	if err := s.Complete(context.Background(), got.Digest); err == nil || !strings.Contains(err.Error(), "was damaged") {
		t.Errorf("error %v", err)
	}
	load(t, s, img.layout(t, "web:1")) // works again
	if err := s.Complete(context.Background(), got.Digest); err != nil {
		t.Error(err)
	}
}

func TestAFullDiskIsSaid(t *testing.T) {
	s := open(t, store.Options{MinFree: 1 << 62})
	data := makeImage(t, same, nil, tarOf("a", "1")).layout(t, "web:1")
	_, err := archive.Load(context.Background(), s, bytes.NewReader(data), "", func(string) {})
	var typed *image.Error
	if !errors.As(err, &typed) || typed.Code != image.CodeNoSpace || typed.Advice == "" {
		t.Errorf("error %v", err)
	}
}

func TestOneProcessHasTheStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	open(t, store.Options{Dir: dir})
	if _, err := store.Open(store.Options{Dir: dir}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("opening the store a second time: %v", err)
	}
}

// A store killed at any point has the content from either before or after the operation, and continues to work.
func TestKilledAtAnyPoint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.tar")
	img := makeImage(t, gz, nil, tarOf("a", "1"), tarOf("b", strings.Repeat("2", 100_000)))
	if err := os.WriteFile(file, img.layout(t, "web:1"), 0o600); err != nil {
		t.Fatal(err)
	}
	const name = "docker.io/library/web:1"
	child := func(t *testing.T, dir, point string, args ...string) error {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Env = append(os.Environ(), childVariable+"="+dir, failpoint.Variable+"="+point)
		out, err := cmd.CombinedOutput()
		if err != nil && point == "" {
			t.Fatalf("%v: %s", err, out)
		}
		return err
	}
	for _, point := range []string{"blob written", "layer unpacked", "layer in place", "layer kept", "image recorded"} {
		t.Run("loading, "+point, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "images")
			if child(t, dir, point, "load", file) == nil {
				t.Fatal("the process was not killed: it did not reach that point")
			}
			s := open(t, store.Options{Dir: dir})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if left := leftovers(t, dir); left != "" {
				t.Errorf("files are left in the store: %s", left)
			}
			child(t, dir, "", "load", file)
			s = open(t, store.Options{Dir: dir})
			if got, err := s.Find(name); err != nil || len(got.Layers) != 2 {
				t.Errorf("after the image was loaded again: %+v, %v", got, err)
			}
		})
	}
	for _, point := range []string{"image recorded", "name removed", "garbage found", "layer forgotten"} {
		t.Run("removing, "+point, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "images")
			child(t, dir, "", "load", file)
			if child(t, dir, point, "remove", name) == nil {
				t.Fatal("the process was not killed: it did not reach that point")
			}
			s := open(t, store.Options{Dir: dir})
			if _, err := s.Find(name); err == nil {
				t.Error("the removed name still exists")
			}
			if left := leftovers(t, dir); left != "" {
				t.Errorf("files are left in the store: %s", left)
			}
		})
	}
}
