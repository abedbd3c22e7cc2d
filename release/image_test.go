package release

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var date = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// untar unpacks an archive into a new directory.
func untar(t *testing.T, data []byte) string {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		} else if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(to, 0o755)
		} else {
			text, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.WriteFile(to, text, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImage reads an image back: it is valid for each architecture, does not run as root, has the binary as its
// entrypoint, and a second build produces the same bytes.
func TestImage(t *testing.T) {
	binaries := map[string][]program{}
	for _, arch := range Architectures {
		file := filepath.Join(t.TempDir(), arch)
		if err := os.WriteFile(file, []byte("a binary for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		binaries[arch] = []program{{"capstan-manager", file, 0o755}, {"capstan-kube", file, 0o755}}
	}
	data, err := image(options, "capstan-manager", binaries, date)
	if err != nil {
		t.Fatal(err)
	}
	again, err := image(options, "capstan-manager", binaries, date)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("a second image of the same binaries is not the same: %v", err)
	}
	index, err := layout.ImageIndexFromPath(untar(t, data))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 ||
		top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "localhost/capstan-manager:v0.1.0" {
		t.Fatalf("the archive has %+v, %v", top, err)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := inner.IndexManifest()
	if err != nil || len(manifests.Manifests) != len(Architectures) {
		t.Fatalf("the index has %+v, %v", manifests, err)
	}
	for i, m := range manifests.Manifests {
		arch := Architectures[i]
		one, err := inner.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := one.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if m.Platform.Architecture != arch || config.Architecture != arch || config.OS != "linux" {
			t.Errorf("image %d is for %v and %s/%s, want %s", i, m.Platform, config.OS, config.Architecture, arch)
		}
		if c := config.Config; c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/capstan-manager" {
			t.Errorf("the image runs %v as %q", c.Entrypoint, c.User)
		}
		t.Attr("rule", "RX-31")
		t.Attr("rule", "RX-37")
		if got := contents(t, one); got != "etc/ etc/passwd etc/group capstan-manager capstan-kube" {
			t.Errorf("the image has the files %s", got)
		}
	}
}

// TestArchitectures: a trial release can be for one architecture, but not for an unknown one.
func TestArchitectures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(file, []byte("a binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := image(options, "capstan-manager", map[string][]program{"arm64": {{"capstan-manager", file, 0o755}}}, date)
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(untar(t, data))
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := inner.IndexManifest(); err != nil || len(m.Manifests) != 1 ||
		m.Manifests[0].Platform.Architecture != "arm64" {
		t.Errorf("the index has %+v, %v", m, err)
	}
	err = Build(t.Context(), options, Settings{Architectures: []string{"vax"}}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "amd64 and arm64") {
		t.Errorf("a release for a vax: %v", err)
	}
}

// contents lists the files of an image.
func contents(t *testing.T, one v1.Image) string {
	t.Helper()
	layers, err := one.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var names []string
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(names, " ")
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || !h.ModTime.Equal(date) {
			t.Errorf("%s belongs to user %d and has the date %v", h.Name, h.Uid, h.ModTime)
		}
		names = append(names, h.Name)
	}
}

// TestBill creates the bill of materials of the program that builds releases.
func TestBill(t *testing.T) {
	self := filepath.Join(t.TempDir(), "release")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", self, "../hack/release")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	one, err := bill("v0.1.0", []string{self}, date)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := bill("v0.1.0", []string{self, self}, date); err != nil || !bytes.Equal(one, two) {
		t.Errorf("a second bill of materials, of the same binary given twice, is not the same: %v", err)
	}
	b := &cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(one), cyclonedx.BOMFileFormatJSON).Decode(b); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, c := range *b.Components {
		if found[c.Name] != "" || c.Version == "" {
			t.Errorf("%s is listed twice, or has no version", c.Name)
		}
		found[c.Name] = c.PackageURL
	}
	if !strings.HasPrefix(found["sigs.k8s.io/kustomize/api"], "pkg:golang/sigs.k8s.io/kustomize/api@v") ||
		found["stdlib"] == "" || b.SerialNumber == "" {
		t.Errorf("the bill of materials is\n%s", one)
	}
	if _, err := bill("v0.1.0", []string{"doc.go"}, date); err == nil {
		t.Error("a file that is not a binary has a bill of materials")
	}
}

// TestSums: sha256sum accepts the file.
func TestSums(t *testing.T) {
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b/c\n"
	if got := string(sums(Files{"b/c": nil, "a": []byte("abc")})); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
