package bootstrap

import (
	"context"
	"embed"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// KeyBundle is the key of the note that the container runtime came from a bundle, so that cleaning removes it
// completely.
const KeyBundle = "node-bundle"

// nodeFiles are the files that a bundle for owned hosts needs in addition to its programs: services, and the
// configuration of containerd.
//
//go:embed node/*
var nodeFiles embed.FS

var nodePaths = map[string]string{
	"node/containerd.service": "/etc/systemd/system/containerd.service",
	"node/kubelet.service":    "/etc/systemd/system/kubelet.service",
	"node/10-kubeadm.conf":    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
	"node/config.toml":        "/etc/containerd/config.toml",
}

// packagedRuntimes are the paths of containerd services that come from packages.
var packagedRuntimes = []string{"/usr/lib/systemd/system/containerd.service", "/lib/systemd/system/containerd.service"}

// installBundle installs the bundle of the claim's version: one for owned hosts, or one for local hosts.
func (b *Bootstrap) installBundle(ctx context.Context) error {
	if !b.Local {
		m, err := bundle.Node(b.BundlesDir, b.Version)
		if err != nil {
			return err
		}
		if m != nil {
			return b.installNode(ctx, m)
		}
	}
	return bundle.Install(ctx, b.BundlesDir, bundle.LinkDir, b.Version, b.Local)
}

// installNode installs a bundle for owned hosts.
func (b *Bootstrap) installNode(ctx context.Context, m *bundlefile.Manifest) error {
	for _, unit := range packagedRuntimes {
		if _, err := os.Lstat(unit); err == nil {
			return fault.New(nil, "containerd is installed as a package, %s, and the bundle brings its own: remove that "+
				"package, or enroll the host with --bundles packages", unit)
		}
	}
	if !slices.Contains(b.Journal.Notes(KeyBundle), m.Kubernetes) {
		if err := b.Journal.Note(KeyBundle, m.Kubernetes); err != nil {
			return &journalError{err}
		}
	}
	keeper := b.host().Undo
	for _, dir := range []string{bundle.LinkDir, bundle.CNIDir} {
		if err := keeper.MakeDir(dir); err != nil {
			return fault.New(err, "%s can't be made", dir)
		}
	}
	if err := bundle.InstallNode(b.BundlesDir, m, bundle.LinkDir, bundle.CNIDir); err != nil {
		return err
	}
	for name, path := range nodePaths {
		text, err := nodeFiles.ReadFile(name)
		if err != nil {
			return err
		}
		if err := keeper.MakeDir(filepath.Dir(path)); err != nil {
			return fault.New(err, "%s can't be made", filepath.Dir(path))
		}
		if err := keeper.Keep(path); err != nil {
			return fault.New(err, "keeping the host's own %s", path)
		}
		if err := atomicfile.Write(path, nodeFile(string(text), m), 0o644); err != nil {
			return fault.New(err, "%s can't be written", path)
		}
	}
	// kubeadm requires IP forwarding. Cleaning restores kernel settings.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fault.New(err, "packets of pods can't be forwarded: net.ipv4.ip_forward can't be set to 1")
	}
	return b.systemctl(ctx, "daemon-reload")
}

// nodeFile fills in what differs between bundles. Pure.
func nodeFile(text string, m *bundlefile.Manifest) []byte {
	return []byte(strings.NewReplacer("@PAUSE@", m.Image("pause"), "@CNI@", bundle.CNIDir).Replace(text))
}
