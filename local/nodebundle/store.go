package nodebundle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/internal/bundlefile"
	"github.com/capstan-dev/capstan/internal/hint"
)

// Store is the directory of the bundles that a plane offers its hosts.
type Store struct{ Dir string }

// Bundle is a bundle of the store.
type Bundle struct {
	// Kubernetes is the bundle's version of Kubernetes.
	Kubernetes string `json:"kubernetes"`
	// Architecture is the architecture of the hosts that the bundle is for.
	Architecture string `json:"architecture"`
	// Size is the size of the archive, in bytes.
	Size int64 `json:"size"`
	// Imported is the time of the import.
	Imported time.Time `json:"imported"`
}

// Import verifies a bundle and puts it into the store, replacing one of the same version and architecture.
func (s Store) Import(from io.Reader) (*Bundle, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("importing a bundle: %w", err)
	}
	next, err := os.CreateTemp(s.Dir, ".import-")
	if err != nil {
		return nil, fmt.Errorf("importing a bundle: %w", err)
	}
	defer os.Remove(next.Name()) // fails after a successful rename, which is fine
	defer next.Close()
	m, err := bundlefile.Verify(io.TeeReader(from, next))
	if errors.Is(err, bundlefile.ErrDamaged) {
		return nil, hint.Errorf("copy or build it again; nothing was imported", "importing a bundle: %w", err)
	}
	if err == nil {
		err = next.Sync()
	}
	if err == nil {
		err = os.Rename(next.Name(), s.path(m.Kubernetes, m.Architecture))
	}
	if err != nil {
		return nil, fmt.Errorf("importing a bundle: %w", err)
	}
	info, err := next.Stat()
	if err != nil {
		return nil, fmt.Errorf("importing a bundle: %w", err)
	}
	return &Bundle{m.Kubernetes, m.Architecture, info.Size(), info.ModTime()}, nil
}

// List returns the bundles, sorted by file name.
func (s Store) List() ([]Bundle, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return []Bundle{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing bundles: %w", err)
	}
	all := []Bundle{}
	for _, entry := range entries {
		version, arch, ok := bundlefile.ParseFileName(entry.Name())
		info, err := entry.Info()
		if ok && err == nil && info.Mode().IsRegular() {
			all = append(all, Bundle{version, arch, info.Size(), info.ModTime()})
		}
	}
	return all, nil
}

// Open opens the bundle of a version and architecture. It fails with fs.ErrNotExist if there is none.
func (s Store) Open(version, architecture string) (*os.File, error) {
	if !bundlefile.ValidVersion(version) || !bundlefile.ValidArchitecture(architecture) {
		return nil, fmt.Errorf("the bundle of %q for %q: %w", version, architecture, fs.ErrNotExist)
	}
	return os.Open(s.path(version, architecture))
}

func (s Store) path(version, architecture string) string {
	return filepath.Join(s.Dir, bundlefile.FileName(version, architecture))
}
