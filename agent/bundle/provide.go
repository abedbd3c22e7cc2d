package bundle

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/bundlefile"
)

// Policy says where an owned host gets the programs of a node from.
type Policy string

// The policies.
const (
	// FromAnywhere is the default: it uses the host's own kubeadm and kubelet if there are any, else it works like
	// [FromPlane].
	FromAnywhere Policy = ""
	// FromPlane uses the directory of bundles, and downloads missing ones from the plane.
	FromPlane Policy = "plane"
	// FromDirectory uses only the directory of bundles.
	FromDirectory Policy = "directory"
	// FromPackages uses what the packages of the host's distribution have installed.
	FromPackages Policy = "packages"
	// FromMirror uses the directory of bundles, and downloads missing ones from a web server.
	FromMirror Policy = "mirror"
)

// Source is where a host gets the programs of a node from.
type Source struct {
	Policy Policy
	// Mirror is the web server, with policy FromMirror.
	Mirror Mirror
	// Plane is the host's plane; nil if it has none, or the source doesn't need it.
	Plane *Plane
}

// Choose returns the source of a claim; it does not set Plane. The host's own configuration takes precedence over the
// claim.
func Choose(configured string, claimed v1beta2.BundlePolicy) Source {
	if configured != "" {
		return Source{Policy: Policy(configured)}
	}
	return Source{
		Policy: Policy(strings.ToLower(string(claimed.Source))),
		Mirror: Mirror{URL: claimed.Mirror.URL, Digests: claimed.Mirror.Digests},
	}
}

// NeedsPlane reports whether the plane is asked for a bundle or its digest.
func (s Source) NeedsPlane() bool {
	switch s.Policy {
	case FromAnywhere, FromPlane:
		return true
	case FromMirror:
		return len(s.Mirror.Digests) == 0
	}
	return false
}

// Provide makes sure that the bundle of a version is unpacked in dir, if the source requires it. If the bundle is not
// available, the error is a fault.
func Provide(ctx context.Context, dir, version string, source Source) error {
	policy := source.Policy
	if version == "" || policy == FromPackages || has(dir, version) || policy == FromAnywhere && packaged(dir) {
		return nil
	}
	if !bundlefile.ValidVersion(version) {
		return fault.New(nil, "there are no bundles of Kubernetes %q: that is not a version such as v1.36.3", version)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fault.New(err, "the directory of bundles can't be made")
	}
	archive := filepath.Join(dir, bundlefile.FileName(version, runtime.GOARCH))
	if _, err := os.Lstat(archive); err == nil {
		return unpack(archive, dir, version)
	}
	part := filepath.Join(dir, "."+filepath.Base(archive)+".part")
	var err error
	switch {
	case policy == FromDirectory:
		return fault.New(nil, "this host has no bundle of Kubernetes %s; copy %s to it", version, archive)
	case policy == FromMirror:
		err = source.Mirror.fetch(ctx, source.Plane, version, runtime.GOARCH, part)
	case policy != FromAnywhere && policy != FromPlane:
		return fault.New(nil, "this agent knows no bundles from %q; upgrade the agent", policy)
	case source.Plane == nil && policy == FromAnywhere:
		return nil // the bootstrap data may install the programs
	case source.Plane == nil:
		return fault.New(nil, "this host knows no plane with bundles; enroll it again, or copy %s to it", archive)
	default:
		err = source.Plane.fetch(ctx, version, runtime.GOARCH, part)
	}
	switch {
	case errors.Is(err, errNone) && policy == FromAnywhere:
		return nil
	case errors.Is(err, errNone):
		return fault.New(nil, "the plane has no bundle of Kubernetes %s for %s; run on the plane's computer: "+
			"capstan bundle import FILE",
			version, runtime.GOARCH)
	case err != nil:
		return err
	}
	return errors.Join(unpack(part, dir, version), forget(part))
}

// unpack verifies and unpacks an archive.
func unpack(archive, dir, version string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fault.New(err, "the bundle %s can't be read", archive)
	}
	defer file.Close()
	to := filepath.Join(dir, version)
	m, err := bundlefile.Unpack(file, to)
	switch {
	case errors.Is(err, bundlefile.ErrDamaged):
		return fault.New(err, "the bundle of Kubernetes %s is damaged; import it again", version)
	case err != nil:
		return fault.New(err, "the bundle of Kubernetes %s can't be unpacked; is the disk full?", version)
	case m.Kubernetes != version || m.Architecture != runtime.GOARCH:
		return errors.Join(fault.New(nil, "the file for Kubernetes %s contains the bundle of %s for %s",
			version, m.Kubernetes, m.Architecture), os.RemoveAll(to))
	}
	return nil
}

// has reports whether dir has a bundle of this version, of either kind.
func has(dir, version string) bool {
	for _, name := range []string{Binary, bundlefile.ManifestName} {
		if _, err := os.Stat(filepath.Join(dir, version, name)); err == nil {
			return true
		}
	}
	return false
}

// packaged reports whether the host has its own kubeadm and kubelet, which don't come from a bundle.
func packaged(dir string) bool {
	for _, name := range []string{"kubeadm", "kubelet"} {
		path, err := command.Find(name)
		if err != nil || ours(dir, path) {
			return false
		}
	}
	return true
}

// CNIDir is where the programs that connect pods are linked.
const CNIDir = "/opt/cni/bin"

// Node returns the manifest of the bundle of a version for owned hosts, or nil if there is none. It verifies that the
// files match the manifest.
func Node(dir, version string) (*bundlefile.Manifest, error) {
	if !bundlefile.ValidVersion(version) {
		return nil, nil
	}
	path := filepath.Join(dir, version)
	m, err := bundlefile.CheckDirectory(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(err, "the bundle in %s is damaged; remove that directory, and delete the machine", path)
	}
	return m, nil
}

// InstallNode links the programs of a bundle for owned hosts.
func InstallNode(dir string, m *bundlefile.Manifest, linkDir, cniDir string) error {
	for _, f := range m.Files {
		part, name, _ := strings.Cut(f.Path, "/")
		to := map[string]string{"bin": linkDir, "cni": cniDir}[part]
		if to == "" {
			continue
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return fault.New(err, "%s can't be made", to)
		}
		if err := link(dir, filepath.Join(dir, m.Kubernetes, f.Path), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}
