package bundlefile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample returns a bundle with three files.
func sample(t *testing.T) ([]byte, *Manifest) {
	t.Helper()
	dir := t.TempDir()
	m := &Manifest{Kubernetes: "v1.36.3", Architecture: "amd64",
		Images: []Image{{Name: "example.com/a/pause:1", Path: "images/pause.tar"}}}
	for _, path := range []string{"bin/kubelet", "cni/ptp", "images/pause.tar"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte("content of "+path), 0o644); err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, File{Path: path})
	}
	var out bytes.Buffer
	if err := Write(&out, m, func(path string) string { return filepath.Join(dir, path) }); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), m
}

func TestABundleIsUnpackedAsItWasWritten(t *testing.T) {
	data, want := sample(t)
	dir := filepath.Join(t.TempDir(), "v1.36.3")
	got, err := Unpack(bytes.NewReader(data), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Image("pause") != "example.com/a/pause:1" || got.Image("other") != "" || got.Size() != want.Size() {
		t.Errorf("the unpacked manifest is %+v", got)
	}
	for path, mode := range map[string]os.FileMode{"bin/kubelet": 0o755, "cni/ptp": 0o755, "images/pause.tar": 0o644} {
		text, err := os.ReadFile(filepath.Join(dir, path))
		info, _ := os.Stat(filepath.Join(dir, path))
		if err != nil || string(text) != "content of "+path || info.Mode() != mode {
			t.Errorf("the unpacked file %s contains %q or has the wrong mode, error %v", path, text, err)
		}
	}
	if _, err := CheckDirectory(dir); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/kubelet"), []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := CheckDirectory(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("CheckDirectory with a changed program: got error %v, want ErrDamaged", err)
	}
}

func TestTheSameFilesMakeTheSameBundle(t *testing.T) {
	one, _ := sample(t)
	two, _ := sample(t)
	if !bytes.Equal(one, two) {
		t.Error("two bundles of the same files differ")
	}
}

// TestADamagedBundleIsRefused: a bundle that is truncated or changed anywhere is refused, and no file of it remains.
func TestADamagedBundleIsRefused(t *testing.T) {
	data, _ := sample(t)
	parent := t.TempDir()
	refused := func(what string, at int, damaged []byte) {
		t.Helper()
		if _, err := Unpack(bytes.NewReader(damaged), filepath.Join(parent, "b")); err == nil {
			t.Errorf("a bundle %s at byte %d of %d was unpacked", what, at, len(data))
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Fatalf("a bundle %s at byte %d left the files %v", what, at, left)
		}
	}
	for at := range data {
		refused("cut", at, data[:at])
	}
	for at := 10; at < len(data); at++ { // skip the gzip header
		damaged := bytes.Clone(data)
		damaged[at] ^= 0x40
		if bytes.Equal(unpacked(damaged), unpacked(data)) {
			continue // the changed bit does not matter
		}
		refused("changed", at, damaged)
	}
}

// unpacked returns the decompressed data, or nil if it is damaged.
func unpacked(data []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	all, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return all
}

// entry is a file in a handmade archive.
type entry struct {
	header tar.Header
	data   string
}

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	for _, e := range entries {
		if e.header.Typeflag == 0 {
			e.header.Typeflag = tar.TypeReg
		}
		if e.header.Size == 0 {
			e.header.Size = int64(len(e.data))
		}
		if err := archive.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(archive, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const sumOfX = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

func TestHostileBundlesAreRefused(t *testing.T) {
	good := func() Manifest {
		return Manifest{Kubernetes: "v1.36.3", Architecture: "amd64", Files: []File{{"bin/x", 1, sumOfX}}}
	}
	x := entry{tar.Header{Name: "bin/x"}, "x"}
	with := func(change func(*Manifest), entries ...entry) []byte {
		m := good()
		change(&m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return pack(t, append([]entry{{tar.Header{Name: ManifestName}, string(text)}}, entries...)...)
	}
	same := func(*Manifest) {}
	if _, err := Verify(bytes.NewReader(with(same, x))); err != nil {
		t.Fatalf("the unchanged bundle: %v", err)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a path outside of the bundle": {
			with(func(m *Manifest) { m.Files[0].Path = "../x" }, x), "a bundle can't have a file",
		},
		"a path with dots": {with(func(m *Manifest) { m.Files[0].Path = "bin/../x" }, x), "a bundle can't have a file"},
		"an absolute path": {with(func(m *Manifest) { m.Files[0].Path = "/bin/x" }, x), "a bundle can't have a file"},
		"a hidden file":    {with(func(m *Manifest) { m.Files[0].Path = "bin/.x" }, x), "a bundle can't have a file"},
		"a file in an unknown directory": {
			with(func(m *Manifest) { m.Files[0].Path = "etc/x" }, x), "a bundle can't have a file",
		},
		"the same file twice": {with(func(m *Manifest) { m.Files = append(m.Files, m.Files[0]) }, x, x), "twice"},
		"a huge file":         {with(func(m *Manifest) { m.Files[0].Size = fileLimit + 1 }, x), "bytes"},
		"a negative size":     {with(func(m *Manifest) { m.Files[0].Size = -1 }, x), "bytes"},
		"no digest":           {with(func(m *Manifest) { m.Files[0].SHA256 = "" }, x), "no valid SHA-256 digest"},
		"a digest that does not match": {
			with(func(m *Manifest) { m.Files[0].SHA256 = strings.Repeat("0", 64) }, x), "the digest of bin/x is not",
		},
		"a size that does not match": {with(func(m *Manifest) { m.Files[0].Size = 2 }, x), "with 1 bytes"},
		"an invalid version":         {with(func(m *Manifest) { m.Kubernetes = "v1.36.3/../.." }, x), "not a version"},
		"an unknown architecture":    {with(func(m *Manifest) { m.Architecture = "../" }, x), "architecture"},
		"no files":                   {with(func(m *Manifest) { m.Files = nil }), "0 files"},
		"too many files":             {with(func(m *Manifest) { m.Files = make([]File, mostFiles+1) }), "129 files"},
		"an image without a file": {
			with(func(m *Manifest) { m.Images = []Image{{"a/b:1", "images/b.tar"}} }, x), "in no file",
		},
		"an invalid image name": {
			with(func(m *Manifest) { m.Images = []Image{{"'a\n", "bin/x"}} }, x), "in no file",
		},
		"a link instead of a file": {
			with(same, entry{tar.Header{Name: "bin/x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, ""}), "should be",
		},
		"a file with another name":           {with(same, entry{tar.Header{Name: "../../x"}, "x"}), "should be"},
		"a file that is not in the manifest": {with(same, x, entry{tar.Header{Name: "bin/y"}, "y"}), "not in its manifest"},
		"a file that is missing":             {with(same), "missing"},
		"no manifest":                        {pack(t, x), "not a manifest"},
		"a link instead of the manifest": {
			pack(t, entry{tar.Header{Name: ManifestName, Typeflag: tar.TypeSymlink, Linkname: "x"}, ""}), "not a manifest",
		},
		"a huge manifest": {
			pack(t, entry{tar.Header{Name: ManifestName}, strings.Repeat(" ", manifestLimit+1)}), "not a manifest",
		},
		"an unknown field in the manifest": {
			pack(t, entry{tar.Header{Name: ManifestName}, `{"run": "x"}`}), "can't be read",
		},
		"a text that is not an archive": {[]byte("hello"), "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			_, err := Unpack(bytes.NewReader(c.data), filepath.Join(parent, "b"))
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(parent); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

func TestFileName(t *testing.T) {
	version, arch, ok := ParseFileName(FileName("v1.36.3", "arm64"))
	if version != "v1.36.3" || arch != "arm64" || !ok {
		t.Errorf("the parsed name has version %s, architecture %s, ok %v", version, arch, ok)
	}
	for _, name := range []string{"", "v1.36.3", "v1.36.3-linux-amd64", "v1.36-linux-amd64.tar.gz",
		"../v1.36.3-linux-amd64.tar.gz", "v1.36.3-linux-x86.tar.gz", "v01.36.3-linux-amd64.tar.gz"} {
		if _, _, ok := ParseFileName(name); ok {
			t.Errorf("%q was accepted as the name of a bundle", name)
		}
	}
}
