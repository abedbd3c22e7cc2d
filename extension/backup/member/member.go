// Package member replaces the data of the etcd member on a control plane host that kubeadm has set up.
//
// The host's kubelet runs etcd and the API server as static pods. [Member.Stop] takes their manifests away and waits until nobody has the
// data open any more, [Member.Replace] puts other data in its place and keeps the old beside it, [Member.Start] gives the manifests back. Each can be
// repeated, also by a process that comes after one that was killed.
package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	manifests = "etc/kubernetes/manifests"
	// aside is where manifests wait meanwhile: on the same filesystem, and not read by the kubelet.
	aside       = "etc/kubernetes/manifests-during-restore"
	maxManifest = 1 << 20
	pollPause   = 100 * time.Millisecond
)

// ErrNone says that a host has no member.
var ErrNone = errors.New("there is no etcd on the host")

// pods are the static pods that must not run while the data is replaced, in the order in which they are given back.
var pods = []string{"etcd.yaml", "kube-apiserver.yaml"}

// Member is the etcd member of one host.
type Member struct {
	// Name is its name in the etcd cluster, PeerURL where other members reach it.
	Name, PeerURL string

	root string // of the host's files
	data string // absolute path of the data directory on the host
}

// Read finds the member of the host whose root directory this is; it is "/" on the host itself. Without one the error is [ErrNone].
func Read(root string) (*Member, error) {
	for _, directory := range []string{manifests, aside} {
		path := filepath.Join(root, directory, "etcd.yaml")
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Size() > maxManifest {
			err = errors.New("it is far too large")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the manifest of etcd: %s: %w", path, err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest of etcd: %w", err)
		}
		m, err := parse(data)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest of etcd %s: %w", path, err)
		}
		m.root = root
		return m, nil
	}
	return nil, fmt.Errorf("%w: it has no %s/etcd.yaml", ErrNone, manifests)
}

// parse reads the flags of etcd in its static pod.
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
	return m, nil
}

// Stop ends etcd and the API server and returns when the data is nobody's. ctx bounds it; after an error [Member.Start] undoes it.
func (m *Member) Stop(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(m.root, aside), 0o700); err != nil {
		return fmt.Errorf("stopping etcd: %w", err)
	}
	for _, pod := range pods {
		if err := move(filepath.Join(m.root, manifests, pod), filepath.Join(m.root, aside, pod)); err != nil {
			return fmt.Errorf("stopping etcd: %w", err)
		}
	}
	for {
		open, err := isOpen(filepath.Join(m.directory(), "member", "snap", "db"))
		if err != nil {
			return fmt.Errorf("looking whether etcd has ended: %w", err)
		}
		if !open {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for etcd on the host to end: its data is still open (does the kubelet run there?): %w", context.Cause(ctx))
		case <-time.After(pollPause):
		}
	}
}

// ErrWithoutData says that a member has neither its old data nor other data in place: it must not run.
var ErrWithoutData = errors.New("the member has no data in place")

// Replace puts data in place that make makes in a directory, which does not exist yet. It gives the path on the host where the old data is kept.
// The member must be stopped. After an error it has its old data, unless the error is [ErrWithoutData].
func (m *Member) Replace(make func(directory string) error, now time.Time) (kept string, err error) {
	fresh := m.directory() + ".restoring"
	if err := os.RemoveAll(fresh); err != nil {
		return "", fmt.Errorf("removing what an earlier try has left: %w", err)
	}
	if err := make(fresh); err != nil {
		return "", errors.Join(err, os.RemoveAll(fresh))
	}
	kept = m.data + ".before-" + now.UTC().Format("20060102T150405Z")
	// Only what is in the directory moves: the directory itself may be a mount.
	if err := os.MkdirAll(filepath.Join(m.root, kept), 0o700); err != nil {
		return "", fmt.Errorf("keeping the old data: %w", err)
	}
	if err := move(filepath.Join(m.directory(), "member"), filepath.Join(m.root, kept, "member")); err != nil {
		return "", fmt.Errorf("keeping the old data: %w", err)
	}
	if err := os.Rename(filepath.Join(fresh, "member"), filepath.Join(m.directory(), "member")); err != nil {
		// Without any data etcd would begin an empty cluster.
		err = fmt.Errorf("putting the restored data in place: %w", err)
		if back := os.Rename(filepath.Join(m.root, kept, "member"), filepath.Join(m.directory(), "member")); back != nil {
			return "", fmt.Errorf("%w, the old data is in %s: %w (%w)", ErrWithoutData, kept, err, back)
		}
		return "", err
	}
	_ = os.RemoveAll(fresh) // the next one removes it
	return kept, nil
}

// Start lets the kubelet run etcd and the API server again. It does not wait for them.
func (m *Member) Start() error {
	for _, pod := range pods {
		if err := move(filepath.Join(m.root, aside, pod), filepath.Join(m.root, manifests, pod)); err != nil {
			return fmt.Errorf("starting etcd again: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(m.root, aside)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("starting etcd again: %w", err)
	}
	return nil
}

func (m *Member) directory() string { return filepath.Join(m.root, m.data) }

// move renames a file. One that is not there was moved before.
func move(from, to string) error {
	if err := os.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isOpen tells whether an etcd has its database open: it holds a lock on it then.
func isOpen(path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
