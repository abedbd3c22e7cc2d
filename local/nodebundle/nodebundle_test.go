package nodebundle

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// stock creates a directory like kube/stock's output, with files that are not programs.
func stock(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"version":            "v1.36.3 " + runtime.GOARCH + "\n",
		"image-list":         "example.com/pause:1 pause /pause\nexample.com/kube-apiserver:v1.36.3 api \n",
		"bin/kubelet":        "kubelet",
		"bin/kubeadm":        "kubeadm",
		"cni/ptp":            "ptp",
		"images/pause/pause": "pause",
		"images/api/usr/local/bin/kube-apiserver":       "api",
		"images/api/usr/lib/x86_64-linux-gnu/libc.so.6": "libc",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// self returns the path of the running test program. The program is static, except when the race detector needs cgo.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built builds a bundle. In place of capstan-net, it passes a directory with the beginning of a program, so the test
// works even if its own program is not static.
func built(t *testing.T) string {
	t.Helper()
	net := t.TempDir()
	data, err := os.ReadFile(self(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(net, NetProgram), data[:1024], 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "bundle.tar.gz")
	m, err := Build(stock(t), net, out, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if m.Image("pause") != "example.com/pause:1" || m.Image(NetProgram) != NetImage || len(m.Files) != 6 {
		t.Errorf("the manifest of the bundle is %+v", m)
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
		t.Errorf("want only the bundle in the directory, got %v", left)
	}
	return out
}

func TestBuildImportList(t *testing.T) {
	file, err := os.Open(built(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := Store{Dir: filepath.Join(t.TempDir(), "bundles")}
	if all, err := s.List(); err != nil || len(all) > 0 {
		t.Errorf("a new store has %v, %v", all, err)
	}
	got, err := s.Import(file)
	if err != nil || got.Kubernetes != "v1.36.3" || got.Architecture != runtime.GOARCH || got.Size == 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || all[0] != *got {
		t.Errorf("the list after the import is %+v, error %v", all, err)
	}
	kept, err := s.Open("v1.36.3", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if _, err := bundlefile.Verify(kept); err != nil {
		t.Error(err)
	}
	for _, version := range []string{"v1.36.4", "../v1.36.3", ""} {
		if _, err := s.Open(version, runtime.GOARCH); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opening the bundle of version %q: got error %v, want fs.ErrNotExist", version, err)
		}
	}
}

func TestADamagedBundleIsNotImported(t *testing.T) {
	data, err := os.ReadFile(built(t))
	if err != nil {
		t.Fatal(err)
	}
	s := Store{Dir: t.TempDir()}
	for name, damaged := range map[string][]byte{
		"cut off": data[:len(data)/2], "empty": nil, "changed": append(bytes.Clone(data[:len(data)-4]), 0, 0, 0, 0),
	} {
		if _, err := s.Import(bytes.NewReader(damaged)); !errors.Is(err, bundlefile.ErrDamaged) {
			t.Errorf("%s: got error %v, want ErrDamaged", name, err)
		}
		if left, _ := os.ReadDir(s.Dir); len(left) > 0 {
			t.Errorf("%s: files are left: %v", name, left)
		}
	}
}

func TestBuildSaysWhatADirectoryLacks(t *testing.T) {
	for missing, want := range map[string]string{
		"version": "was not written by kube/stock", "bin": "no programs", "image-list": "no list of images",
	} {
		dir := stock(t)
		if err := os.RemoveAll(filepath.Join(dir, missing)); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		if _, err := Build(dir, dir, out, func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: got error %v", missing, err)
		}
	}
	dir := stock(t)
	if err := os.WriteFile(filepath.Join(dir, "image-list"), []byte("a:1 ../../etc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(dir, dir, filepath.Join(t.TempDir(), "out"), func(string) {}); err == nil {
		t.Error("a bundle with an image from outside of the directory was built")
	}
}
