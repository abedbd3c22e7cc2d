package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/provider/inventory"
)

// Namespace is the default namespace of clusters. It always has a share of the local hosts; another namespace has one
// only while it has clusters.
const Namespace = inventory.Home

// Place says where a local management plane is.
type Place struct {
	// Home is the directory that holds everything; its absolute path is at most 90 bytes long. It need not exist.
	// Required.
	Home string
	// Binaries is the directory with Capstan's binaries and Kubernetes bundles, as "make build" creates it. [Up]
	// requires it; without it, [Status] lists no Kubernetes versions.
	Binaries string
}

// find returns the directories of p as absolute paths.
func (p Place) find() (dir home.Dir, bin home.Binaries, err error) {
	if dir, err = homeDir(p.Home); err != nil {
		return "", "", err
	}
	if p.Binaries == "" {
		return dir, "", nil
	}
	abs, err := filepath.Abs(p.Binaries)
	if err != nil {
		return "", "", fmt.Errorf("locating the directory of the binaries: %w", err)
	}
	return dir, home.Binaries(abs), nil
}

// homeDir returns the home directory at path.
func homeDir(path string) (home.Dir, error) {
	if path == "" {
		return "", hint.Errorf("name the plane's home directory", "the home directory is missing")
	}
	return home.Find(path, func(string) string { return "" })
}

// errNoBinaries says that a call needs binaries but was not told where they are.
var errNoBinaries = hint.Errorf("name the directory into which make build puts them",
	"the directory with Capstan's binaries is missing")

// NewestBundle returns the newest Kubernetes version for which a directory of binaries has a bundle.
func NewestBundle(binaries string) (string, error) {
	if binaries == "" {
		return "", errNoBinaries
	}
	bundles := home.Binaries(binaries).Bundles()
	if len(bundles) == 0 {
		return "", hint.Errorf("run: make build", "no Kubernetes bundle is built in %s/bundles", binaries)
	}
	return bundles[0], nil
}

// ErrNotRunning is wrapped by the errors of calls that need a dock when none runs in that home directory.
var ErrNotRunning = dock.ErrNotRunning

// NoPlaneError says that a home directory has no management plane: none was started there, or it was removed.
type NoPlaneError struct {
	// Home is that directory.
	Home string
}

// Error names the directory.
func (e *NoPlaneError) Error() string { return "no management plane in " + e.Home }

// Hint returns the command that starts one.
func (e *NoPlaneError) Hint() string { return "run: capstan up" }

// Kubeconfig returns the path of the management plane's kubeconfig for the user of this machine. If there is none, the
// error is a [*NoPlaneError].
func Kubeconfig(homePath string) (string, error) {
	dir, err := homeDir(homePath)
	if err != nil {
		return "", err
	}
	path := dir.Kubeconfig()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return "", &NoPlaneError{Home: string(dir)}
	} else if err != nil {
		return "", fmt.Errorf("locating the kubeconfig: %w", err)
	}
	return path, nil
}
