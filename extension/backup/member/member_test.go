package member

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const pod = `{"spec":{"containers":[{"name":"etcd","command":["etcd","--name=n1","--initial-advertise-peer-urls=https://10.0.0.1:2380","--data-dir=/var/lib/etcd"]}]}}`

func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"a manifest as kubeadm writes it": {pod, ""},
		"not YAML":                        {"{", "did not find"},
		"another program":                 {`{"spec":{"containers":[{"command":["sleep"]}]}}`, "--data-dir"},
		"a relative data directory":       {strings.Replace(pod, "/var/lib/etcd", "etcd", 1), "--data-dir"},
		"a way out of the root": {strings.Replace(pod, "/var/lib/etcd", "/var/lib/../../../../etc", 1), "not a clean " +
			"path"},
		"the root itself": {strings.Replace(pod, "/var/lib/etcd", "/", 1), "not a clean path"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := parse([]byte(c.data))
			switch {
			case c.want == "" && (err != nil || m.Name != "n1" || m.PeerURL != "https://10.0.0.1:2380" ||
				m.data != "var/lib/etcd"):
				t.Errorf("got %+v, %v", m, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// host makes the files of a host with a member whose database holds this text.
func host(t *testing.T, text string) (root string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "root")
	for path, data := range map[string]string{
		manifests + "/etcd.yaml": pod, manifests + "/kube-apiserver.yaml": "{}", "var/lib/etcd/member/snap/db": text,
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func database(t *testing.T, root, directory string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, directory, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(text string) func(string) error {
	return func(directory string) error {
		path := filepath.Join(directory, "member", "snap", "db")
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	}
}

func TestReplace(t *testing.T) {
	root := host(t, "old")
	running, err := os.Open(filepath.Join(root, "var/lib/etcd/member/snap/db"))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	if err := syscall.Flock(int(running.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	m, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*pollPause)
	defer cancel()
	if err := m.Stop(short); err == nil || !strings.Contains(err.Error(), "still open") {
		t.Fatalf("stopping an etcd that keeps running: error %v", err)
	}
	running.Close()
	if m, err = Read(root); err != nil { // like a new process after the first was killed
		t.Fatal(err)
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, manifests)); len(left) != 0 {
		t.Errorf("the kubelet still sees %v", left)
	}
	broken := errors.New("no space")
	if _, err := m.Replace(func(string) error { return broken }, time.Now()); !errors.Is(err, broken) ||
		database(t, root, "var/lib/etcd") != "old" {
		t.Errorf("the failure to make the data was not returned, or the old data is gone: error %v", err)
	}
	kept, err := m.Replace(write("new"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil || kept != "/var/lib/etcd.before-20260102T030405Z" {
		t.Fatalf("kept in %s, %v", kept, err)
	}
	if now, old := database(t, root, "var/lib/etcd"), database(t, root, kept); now != "new" || old != "old" {
		t.Errorf("the data is %q, and the old data that was kept is %q", now, old)
	}
	for range 2 {
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if back, _ := os.ReadDir(filepath.Join(root, manifests)); len(back) != 2 {
		t.Errorf("the kubelet sees %v", back)
	}
	if _, err := os.Stat(filepath.Join(root, aside)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory for manifests is left: %v", err)
	}
}

func TestReadAHostWithoutEtcd(t *testing.T) {
	if _, err := Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no etcd on the host") {
		t.Errorf("error %v", err)
	}
}

// TestReplaceFails: whatever goes wrong, the member has its old data again.
func TestReplaceFails(t *testing.T) {
	for name, make := range map[string]func(string) error{
		"the data can't be made":     func(string) error { return errors.New("no") },
		"the new data is not etcd's": func(directory string) error { return os.MkdirAll(directory, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			root := host(t, "old")
			m, err := Read(root)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Replace(make, time.Now()); err == nil {
				t.Error("Replace returned no error")
			}
			if got := database(t, root, "var/lib/etcd"); got != "old" {
				t.Errorf("the data is %q", got)
			}
		})
	}
}

// TestAHostCannotLeadOutOfItsRoot: nothing that a tenant puts on the host causes a change outside its root, or a hang.
func TestAHostCannotLeadOutOfItsRoot(t *testing.T) {
	for name, attack := range map[string]func(root, outside string) error{
		"the data directory is a link": func(root, outside string) error {
			return replaceByLink(filepath.Join(root, "var/lib/etcd"), outside)
		},
		"a directory above is a link": func(root, outside string) error {
			return replaceByLink(filepath.Join(root, "var/lib"), filepath.Dir(outside))
		},
		"a relative link": func(root, outside string) error {
			relative, err := filepath.Rel(filepath.Join(root, "var/lib"), outside)
			return errors.Join(err, replaceByLink(filepath.Join(root, "var/lib/etcd"), relative))
		},
		"the directory of manifests is a link": func(root, outside string) error {
			return replaceByLink(filepath.Join(root, "etc/kubernetes/manifests"), outside)
		},
		"the directory where manifests wait is a link": func(root, outside string) error {
			return os.Symlink(outside, filepath.Join(root, aside))
		},
		"the manifest is a pipe": func(root, _ string) error {
			path := filepath.Join(root, manifests, "etcd.yaml")
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		},
		"the database is a pipe": func(root, _ string) error {
			path := filepath.Join(root, "var/lib/etcd/member/snap/db")
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		},
		"--data-dir leads out": func(root, outside string) error {
			out := "/../" + filepath.Base(outside)
			return os.WriteFile(filepath.Join(root, manifests, "etcd.yaml"),
				[]byte(strings.Replace(pod, "/var/lib/etcd", out, 1)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := host(t, "old")
			outside := filepath.Join(filepath.Dir(root), "etcd") // the name that a link to a directory above would lead to
			for path, text := range map[string]string{
				"member/snap/db": "machine", "etcd.yaml": pod, "kube-apiserver.yaml": "{}",
			} {
				path = filepath.Join(outside, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if err := attack(root, outside); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			m, err := Read(root)
			if err == nil {
				err = m.Stop(ctx)
			}
			if err == nil {
				_, err = m.Replace(write("new"), time.Now())
			}
			if err == nil || ctx.Err() != nil {
				t.Errorf("error %v, context %v: the attack was not refused", err, ctx.Err())
			}
			var left []string
			err = filepath.WalkDir(outside, func(path string, d fs.DirEntry, err error) error {
				if !d.IsDir() {
					left = append(left, strings.TrimPrefix(path, outside+"/"))
				}
				return err
			})
			if want := []string{"etcd.yaml", "kube-apiserver.yaml", "member/snap/db"}; err != nil || !slices.Equal(left, want) {
				t.Errorf("the files outside are %v now, %v", left, err)
			}
			if got, _ := os.ReadFile(filepath.Join(outside, "member/snap/db")); string(got) != "machine" {
				t.Errorf("data outside is %q", got)
			}
			if entries, _ := os.ReadDir(filepath.Dir(root)); len(entries) != 2 {
				t.Errorf("the host's directory has %v", entries)
			}
		})
	}
}

// replaceByLink puts a link where a directory was.
func replaceByLink(path, target string) error {
	return errors.Join(os.Rename(path, path+".real"), os.Symlink(target, path))
}
