// Package member replaces the data of the etcd member on a control plane host that kubeadm has set up.
//
// The host's kubelet runs etcd and the API server as static pods. [Member.Stop] moves their manifests aside and waits
// until no process has the data open. [Member.Replace] replaces the data and keeps the old data next to it.
// [Member.Start] moves the manifests back. Each step can be repeated, also by another process after the first was
// killed.
package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/backoff"
)

const (
	manifests = "etc/kubernetes/manifests"
	// aside is where the manifests wait: on the same filesystem, but outside the kubelet's manifest directory.
	aside       = "etc/kubernetes/manifests-during-restore"
	maxManifest = 1 << 20
	pollPause   = 100 * time.Millisecond
)

// ErrNone reports that a host has no etcd member.
var ErrNone = errors.New("there is no etcd on the host")

// pods are the static pods that must not run while the data is replaced, in the order of restart.
var pods = []string{"etcd.yaml", "kube-apiserver.yaml"}

// Member is the etcd member of one host. All access stays below the host's root directory: neither links nor ".." in
// what a tenant wrote there lead outside.
type Member struct {
	// Name is the member's name in the etcd cluster, PeerURL the URL for other members.
	Name, PeerURL string

	root string // root directory of the host's files
	data string // path of the data directory on the host, without the leading slash
}

// Read finds the member of the host with this root directory. If there is none, the error is [ErrNone].
func Read(root string) (*Member, error) {
	host, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of etcd: %w", err)
	}
	defer host.Close()
	for _, directory := range []string{manifests, aside} {
		path := filepath.Join(directory, "etcd.yaml")
		data, err := readFile(host, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the manifest of etcd: %w", err)
		}
		m, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest of etcd %s: %w", filepath.Join(root, path), err)
		}
		m.root = root
		return m, nil
	}
	return nil, fmt.Errorf("%w: it has no %s/etcd.yaml", ErrNone, manifests)
}

// readFile reads a manifest. It refuses a file that is too large or not regular.
func readFile(host *os.Root, path string) ([]byte, error) {
	file, err := openRegular(host, path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("%s: it is far too large", path)
	}
	return data, nil
}

// openRegular opens a file of the host for reading. It does not block on a named pipe.
func openRegular(host *os.Root, path string) (*os.File, error) {
	file, err := host.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: it is not a regular file", path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// parse reads the flags of etcd from its static pod.
func parse(data []byte) (*Member, error) {
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, err
	}
	m := &Member{}
	for _, container := range pod.Spec.Containers {
		for _, arg := range append(container.Command, container.Args...) {
			name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			switch name {
			case "name":
				m.Name = value
			case "initial-advertise-peer-urls":
				m.PeerURL = value
			case "data-dir":
				m.data = value
			}
		}
	}
	if m.Name == "" || m.PeerURL == "" || !filepath.IsAbs(m.data) {
		return nil, errors.New("it does not give etcd the flags --name, --initial-advertise-peer-urls and --data-dir")
	}
	if filepath.Clean(m.data) != m.data || m.data == "/" || strings.ContainsRune(m.data, 0) {
		return nil, fmt.Errorf("--data-dir=%q is not a clean path of a directory", m.data)
	}
	m.data = strings.TrimPrefix(m.data, "/")
	return m, nil
}

// Stop stops etcd and the API server and returns when no process has the data open, or ctx is done. After an error,
// [Member.Start] undoes it.
func (m *Member) Stop(ctx context.Context) error {
	host, err := os.OpenRoot(m.root)
	if err != nil {
		return fmt.Errorf("stopping etcd: %w", err)
	}
	defer host.Close()
	if err := host.MkdirAll(aside, 0o700); err != nil {
		return fmt.Errorf("stopping etcd: %w", err)
	}
	for _, pod := range pods {
		if err := move(host, filepath.Join(manifests, pod), filepath.Join(aside, pod)); err != nil {
			return fmt.Errorf("stopping etcd: %w", err)
		}
	}
	for {
		open, err := isOpen(host, filepath.Join(m.data, "member", "snap", "db"))
		if err != nil {
			return fmt.Errorf("looking whether etcd has stopped: %w", err)
		}
		if !open {
			return nil
		}
		if backoff.Sleep(ctx, pollPause) != nil {
			return fmt.Errorf("waiting for etcd on the host to stop: its data is still open (does the kubelet run there?): %w",
				context.Cause(ctx))
		}
	}
}

// ErrWithoutData reports that a member has neither its old nor its new data in place and must not run.
var ErrWithoutData = errors.New("the member has no data in place")

// Replace replaces the member's data. make writes the new data to a directory that does not exist yet and that the host
// cannot see. Replace returns the path of the old data on the host. The member must be stopped. After an error it still
// has its old data, unless the error is [ErrWithoutData].
func (m *Member) Replace(make func(directory string) error, now time.Time) (kept string, err error) {
	host, err := os.OpenRoot(m.root)
	if err != nil {
		return "", fmt.Errorf("replacing the data: %w", err)
	}
	defer host.Close()
	// Put the new data next to the host's files, not among them, because programs that work there follow links.
	fresh := filepath.Join(filepath.Dir(filepath.Clean(m.root)), "restoring")
	if err := os.RemoveAll(fresh); err != nil {
		return "", fmt.Errorf("removing what an earlier attempt left behind: %w", err)
	}
	defer os.RemoveAll(fresh) // after a crash, the next call removes it
	if err := make(fresh); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(fresh, "member")); err != nil {
		return "", fmt.Errorf("looking at the restored data: %w", err)
	}
	kept = m.data + ".before-" + now.UTC().Format("20060102T150405Z")
	// Move only the content: the directory itself may be a mount point.
	if err := host.MkdirAll(kept, 0o700); err != nil {
		return "", fmt.Errorf("keeping the old data: %w", err)
	}
	if err := move(host, filepath.Join(m.data, "member"), filepath.Join(kept, "member")); err != nil {
		return "", fmt.Errorf("keeping the old data: %w", err)
	}
	if err := moveIn(host, filepath.Join(fresh, "member"), m.data); err != nil {
		// Without data, etcd would start an empty cluster.
		err = fmt.Errorf("putting the restored data in place: %w", err)
		if back := host.Rename(filepath.Join(kept, "member"), filepath.Join(m.data, "member")); back != nil {
			return "", fmt.Errorf("%w, the old data is in /%s: %w (%w)", ErrWithoutData, kept, err, back)
		}
		return "", err
	}
	return "/" + kept, nil
}

// Start lets the kubelet run etcd and the API server again. It does not wait for them.
func (m *Member) Start() error {
	host, err := os.OpenRoot(m.root)
	if err != nil {
		return fmt.Errorf("starting etcd again: %w", err)
	}
	defer host.Close()
	for _, pod := range pods {
		if err := move(host, filepath.Join(aside, pod), filepath.Join(manifests, pod)); err != nil {
			return fmt.Errorf("starting etcd again: %w", err)
		}
	}
	if err := host.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("starting etcd again: %w", err)
	}
	return nil
}

// move renames a file of the host. A missing file counts as moved.
func move(host *os.Root, from, to string) error {
	if err := host.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// moveIn moves a directory from outside into a directory of the host, under the same name.
func moveIn(host *os.Root, from, directory string) error {
	to, err := host.OpenFile(directory, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := unix.Renameat(unix.AT_FDCWD, from, int(to.Fd()), filepath.Base(from)); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: directory, Err: err}
	}
	return nil
}

// isOpen reports whether an etcd has its database open, that is, holds the lock on it.
func isOpen(host *os.Root, path string) (bool, error) {
	file, err := openRegular(host, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
