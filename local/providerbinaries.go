package local

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/plane/providers"
)

// binariesTimeout bounds how long an installation of providers waits for another installation, which may itself wait
// for its provider.
const binariesTimeout = 10 * time.Minute

// AllowBinaries lets the plane of a home directory run programs as processes in place of providers' Pods. binaries maps
// provider names to absolute paths. For each program, AllowBinaries sends a Note about the rights that the program
// gets. Until the returned function is called, nobody else can allow binaries: providers installed at the same time
// would choose the same ports.
func AllowBinaries(
	ctx context.Context, homePath string, binaries map[string]string, progress Progress,
) (done func(), err error) {
	dir, err := homeDir(homePath)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, binariesTimeout)
	defer cancel()
	lock := filepath.Join(dir.Plane(), "binaries.lock")
	unlock, err := LockFile(ctx, lock, "capstan clusterctl with --provider-binary", progress)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(binaries)) {
		if err := providers.Allow(dir.Plane(), binaries[name]); err != nil {
			unlock()
			return nil, err
		}
		progress.note(fmt.Sprintf("Provider %s runs as a process of the plane, %s. It is not a container, and has your "+
			"rights on this machine.", name, binaries[name]))
	}
	return unlock, nil
}
