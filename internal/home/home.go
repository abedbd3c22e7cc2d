// Package home defines where Capstan keeps its files on this machine.
package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Dir is the home directory of one Capstan installation, which contains everything that it keeps.
type Dir string

// Find returns the home directory: flag if not empty, else CAPSTAN_HOME, else $XDG_DATA_HOME/capstan, else
// ~/.local/share/capstan. The result is absolute; the directory need not exist.
func Find(flag string, getenv func(string) string) (Dir, error) {
	dir := flag
	if dir == "" {
		dir = getenv("CAPSTAN_HOME")
	}
	if dir == "" {
		if data := getenv("XDG_DATA_HOME"); data != "" {
			dir = filepath.Join(data, "capstan")
		}
	}
	if dir == "" {
		user := getenv("HOME")
		if user == "" {
			return "", errors.New("no home directory: HOME is not set; give --home DIR or set CAPSTAN_HOME")
		}
		dir = filepath.Join(user, ".local", "share", "capstan")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("finding the home directory: %w", err)
	}
	// A Unix socket's path has at most 107 bytes, and dock/dock.sock must fit.
	if len(abs) > 90 {
		return "", fmt.Errorf("the path of the home directory %s has %d bytes, but may have at most 90, because the "+
			"directory contains unix sockets: give a shorter --home", abs, len(abs))
	}
	return Dir(abs), nil
}

// lockName is the name of the lock file.
const lockName = "lock"

// Lock is the file that a process locks while it works on the home directory.
func (d Dir) Lock() string { return d.join(lockName) }

// Kubeconfig is the user's kubeconfig for the management plane.
func (d Dir) Kubeconfig() string { return d.join("kubeconfig") }

// Dock is the directory of the dock.
func (d Dir) Dock() string { return d.join("dock") }

// Images is the directory of the image store.
func (d Dir) Images() string { return d.join("images") }

// NodeBundles is the directory with the bundles that the plane serves to owned hosts.
func (d Dir) NodeBundles() string { return d.join("bundles") }

// Plane is the directory of the management plane.
func (d Dir) Plane() string { return d.join("plane") }

// Encryption is the directory with the key that encrypts the Secrets of the management plane.
func (d Dir) Encryption() string { return d.join("plane", "encryption") }

// Audit is the audit log of the management plane.
func (d Dir) Audit() string { return d.join("plane", "audit", "audit.log") }

// Hooks is the file with the lifecycle hook calls.
func (d Dir) Hooks() string { return d.join("plane", "hooks.jsonl") }

// Backups is the directory with snapshots of clusters.
func (d Dir) Backups() string { return d.join("backups") }

// Ready is the file that the management plane writes once it is ready.
func (d Dir) Ready() string { return d.join("plane", "ready.json") }

// HostRoot is the root directory of a local host.
func (d Dir) HostRoot(host string) string { return d.join("dock", "hosts", host, "root") }

// ClusterKubeconfig is the kubeconfig of a workload cluster as this machine reaches it.
func (d Dir) ClusterKubeconfig(namespace, name string) string {
	return d.join("clusters", namespace+"_"+name+".kubeconfig")
}

func (d Dir) join(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

// Binaries is the directory with Capstan's binaries, which find each other there.
type Binaries string

// FindBinaries returns the directory of the running binary.
func FindBinaries() (Binaries, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the directory of this binary: %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return Binaries(filepath.Dir(self)), nil
}

// Path returns the path of one binary, or an error that says how to get it.
func (b Binaries) Path(name string) (string, error) {
	path := filepath.Join(string(b), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing in the directory of this binary (%s): run make build", name, path)
	}
	return path, guarded(path)
}

// guarded returns an error if anybody on this machine could replace a program before it runs, because the file or its
// directory is writable for everybody.
func guarded(path string) error {
	for _, p := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		keepsOwners := info.IsDir() && info.Mode()&os.ModeSticky != 0
		if info.Mode().Perm()&0o002 != 0 && !keepsOwners {
			return fmt.Errorf("every user of this machine may write to %s, so %s is not run: chmod o-w %s", p, path, p)
		}
	}
	return nil
}

// Bundles returns the Kubernetes versions of the existing bundles, newest first.
func (b Binaries) Bundles() []string {
	found, _ := filepath.Glob(filepath.Join(string(b), "bundles", "v*", "capstan-kube"))
	versions := make([]string, 0, len(found))
	for _, f := range found {
		versions = append(versions, filepath.Base(filepath.Dir(f)))
	}
	sort.Slice(versions, func(i, j int) bool { return Less(versions[j], versions[i]) })
	return versions
}

// Kube returns the path of a bundle's capstan-kube, or an error that lists the existing bundles.
func (b Binaries) Kube(version string) (string, error) {
	path := filepath.Join(string(b), "bundles", version, "capstan-kube")
	if _, err := os.Stat(path); err == nil {
		return path, guarded(path)
	}
	have := b.Bundles()
	if len(have) == 0 {
		return "", fmt.Errorf("no Kubernetes bundle is built (looked for %s): run make build", path)
	}
	return "", fmt.Errorf("there is no bundle for Kubernetes %s: there are %s", version, strings.Join(have, ", "))
}

// Less orders Kubernetes versions such as v1.36.3 by number. A part that is not a number counts as zero.
func Less(a, b string) bool {
	var an, bn [3]int
	fmt.Sscanf(a, "v%d.%d.%d", &an[0], &an[1], &an[2])
	fmt.Sscanf(b, "v%d.%d.%d", &bn[0], &bn[1], &bn[2])
	for i := range an {
		if an[i] != bn[i] {
			return an[i] < bn[i]
		}
	}
	return a < b
}
