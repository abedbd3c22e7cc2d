package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/dock/unit"
)

func skeleton(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := Write(root, Skeleton{Name: "host-1", MachineID: NewMachineID(), OSName: "Test OS 1"},
		[]File{{Path: "/etc/given", Mode: 0o600, Data: []byte("yes")}}); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestEveryServiceOfANewHostLoads(t *testing.T) {
	root := skeleton(t)
	dir := filepath.Join(root, "etc/systemd/system")
	names, err := unit.Names([]string{dir})
	if err != nil || strings.Join(names, " ") != "capstan-agent.service containerd.service kubelet.service" {
		t.Errorf("services are %v, %v", names, err)
	}
	for _, name := range names {
		u, err := unit.Load(name, []string{dir})
		if err != nil {
			t.Error(err)
			continue
		}
		if len(u.Ignored) > 0 || u.Restart != "always" {
			t.Errorf("%s: ignored %v, restart %s", name, u.Ignored, u.Restart)
		}
	}
	if wanted, _ := unit.WantedAtBoot(dir); strings.Join(wanted, " ") != "capstan-agent.service" {
		t.Errorf("enabled are %v", wanted)
	}
	kubelet, err := unit.Load("kubelet.service", []string{dir})
	if err != nil {
		t.Fatal(err)
	}
	env := append(kubelet.Environment, "KUBELET_KUBEADM_ARGS=--node-ip=1.2.3.4 --x", "KUBELET_EXTRA_ARGS=")
	want := "/usr/local/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf " +
		"--kubeconfig=/etc/kubernetes/kubelet.conf " +
		"--config=/var/lib/kubelet/config.yaml --node-ip=1.2.3.4 --x"
	if got := strings.Join(kubelet.ExecStart[0].Expand(env), " "); got != want {
		t.Errorf("kubelet is started as\n%s\nwant\n%s", got, want)
	}
}

func TestWriteMakesAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(root, Skeleton{Name: "x"}, nil); err == nil {
		t.Fatal("Write replaced an existing directory")
	}
	if _, err := os.Lstat(root + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an incomplete directory is left: %v", err)
	}
	if err := Remove(root); err != nil {
		t.Fatal(err)
	}
	// What a crash left must not keep Write from working.
	if err := os.MkdirAll(filepath.Join(root+".new", "etc"), 0o000); err != nil {
		t.Fatal(err)
	}
	if err := Write(root, Skeleton{Name: "x", MachineID: "y"}, nil); err != nil {
		t.Fatal(err)
	}
}

func TestPut(t *testing.T) {
	root := skeleton(t)
	outside := filepath.Join(filepath.Dir(root), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"etc/absolute": outside, "etc/relative": "../../outside", "etc/inner": "../var",
	} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	files := []File{{Path: "/etc/capstan/agent.yaml", Mode: 0o600, Data: []byte("a")},
		{Path: "/var/lib/new/dir/x", Mode: 0o755, Data: []byte("b")}, {Path: "/etc/inner/lib/y", Mode: 0o644}}
	for range 2 {
		if err := Put(root, files); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "var/lib/new/dir/x")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/y")); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/etc/absolute/x", "/etc/relative/x", "/../outside/x"} {
		err := Put(root, []File{{Path: path, Mode: 0o644}})
		if entries, _ := os.ReadDir(outside); len(entries) > 0 {
			t.Fatalf("%s was written outside of the root", path)
		}
		if err == nil && !strings.HasPrefix(path, "/..") { // cleaned to /outside/x, which is inside
			t.Errorf("%s: no error", path)
		}
	}
}

func TestPutReplacesAsAWhole(t *testing.T) {
	root := skeleton(t)
	path := filepath.Join(root, "etc/x")
	for name, make := range map[string]func() error{
		"a pipe, which blocks readers": func() error { return syscall.Mkfifo(path, 0o600) },
		"a link":                       func() error { return os.Symlink("hostname", path) },
		"a longer file":                func() error { return os.WriteFile(path, []byte("longer"), 0o644) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if err := Put(root, []File{{Path: "/etc/x", Mode: 0o600, Data: []byte("x")}}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o600 || info.Size() != 1 {
			t.Errorf("%s: the file is %v, %v", name, info, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRemoveCopesWithUnreadableDirectories(t *testing.T) {
	root := skeleton(t)
	deep := filepath.Join(root, "var/lib/a/b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(deep), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Remove(root); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory still exists: %v", err)
	}
}
