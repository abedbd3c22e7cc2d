package enrol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// architectures lists the architectures that agents are built for, by Go's names for them.
var architectures = []string{"amd64", "arm64"}

// agents are the builds of the agent in a directory with Capstan's binaries. "capstan-agent" is for this machine's
// architecture; "capstan-agent-linux-ARCH" is for ARCH.
type agents struct {
	dir string

	mu    sync.Mutex
	known map[string]build
}

// build describes a build of the agent when its checksum was computed.
type build struct {
	path     string
	size     int64
	changed  time.Time
	checksum string
}

func newAgents(dir string) *agents { return &agents{dir: dir, known: map[string]build{}} }

// open opens the build for an architecture and returns it with its checksum. It fails with os.ErrNotExist if there is
// none.
func (a *agents) open(arch string) (*os.File, build, error) {
	if !slices.Contains(architectures, arch) {
		return nil, build{}, fmt.Errorf("architecture %q: %w", arch, os.ErrNotExist)
	}
	names := []string{"capstan-agent-linux-" + arch}
	if arch == runtime.GOARCH {
		names = append(names, "capstan-agent")
	}
	var err error
	for _, name := range names {
		var file *os.File
		path := filepath.Join(a.dir, name)
		if file, err = os.Open(path); err != nil {
			continue
		}
		b, err := a.look(file, path)
		if err != nil {
			file.Close()
			return nil, build{}, err
		}
		return file, b, nil
	}
	return nil, build{}, err
}

// look returns the checksum of the open file, from memory if the file has not changed since the last time.
func (a *agents) look(file *os.File, path string) (build, error) {
	info, err := file.Stat()
	if err != nil {
		return build{}, err
	}
	now := build{path: path, size: info.Size(), changed: info.ModTime()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.known[path]; b.size == now.size && b.changed.Equal(now.changed) {
		return b, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return build{}, fmt.Errorf("reading the agent: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return build{}, err
	}
	now.checksum = hex.EncodeToString(sum.Sum(nil))
	a.known[path] = now
	return now, nil
}

// checksums returns the checksums of all builds, by architecture.
func (a *agents) checksums() map[string]string {
	sums := map[string]string{}
	for _, arch := range architectures {
		if file, b, err := a.open(arch); err == nil {
			file.Close()
			sums[arch] = b.checksum
		}
	}
	return sums
}
