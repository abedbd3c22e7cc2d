package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// downloadTimeout bounds one download of a module.
const downloadTimeout = 3 * time.Minute

// Module finds the packages of a Go module and of its dependencies. It needs the go command, which downloads missing
// modules.
type Module struct {
	path      string
	directory string
	require   []requirement

	mu    sync.Mutex
	found map[string]string // directories of modules, by path@version; "" for unavailable ones
}

type requirement struct{ Path, Version string }

// OpenModule opens a module given as "path@version" or as the directory of its source.
func OpenModule(ctx context.Context, name string) (*Module, error) {
	directory := name
	if modulePath, version, ok := strings.Cut(name, "@"); ok {
		var err error
		if directory, err = download(ctx, modulePath, version); err != nil {
			return nil, err
		}
	}
	out, err := runGo(ctx, directory, "mod", "edit", "-json")
	if err != nil {
		return nil, fmt.Errorf("reading the module %s: %w", name, err)
	}
	var mod struct {
		Module  struct{ Path string }
		Require []requirement
		Replace []struct {
			Old struct{ Path string }
			New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("reading the module %s: %w", name, err)
	}
	m := &Module{path: mod.Module.Path, directory: directory, require: mod.Require, found: map[string]string{}}
	for _, r := range mod.Replace {
		if r.New.Version == "" { // a local directory; published replacements do not count
			for i := range m.require {
				if m.require[i].Path == r.Old.Path {
					m.found[m.require[i].Path+"@"+m.require[i].Version] = filepath.Join(directory, r.New.Path)
				}
			}
		}
	}
	return m, nil
}

// Path returns the module's path.
func (m *Module) Path() string { return m.path }

// Locate returns the directory of a package of the module or of a dependency, for [Source].
func (m *Module) Locate(ctx context.Context, importPath string) (string, error) {
	if directory, ok := m.inside(importPath); ok {
		return directory, nil
	}
	var best requirement
	for _, r := range m.require {
		if (importPath == r.Path || strings.HasPrefix(importPath, r.Path+"/")) && len(r.Path) > len(best.Path) {
			best = r
		}
	}
	if best.Path == "" {
		return "", fmt.Errorf("package %s is not in the module %s or one that it requires", importPath, m.path)
	}
	root, err := m.required(ctx, best)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(importPath, best.Path))), nil
}

func (m *Module) inside(importPath string) (string, bool) {
	if importPath != m.path && !strings.HasPrefix(importPath, m.path+"/") {
		return "", false
	}
	directory := filepath.Join(m.directory, filepath.FromSlash(strings.TrimPrefix(importPath, m.path)))
	_, err := os.Stat(directory) // another module may begin below this path
	return directory, err == nil
}

func (m *Module) required(ctx context.Context, r requirement) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := r.Path + "@" + r.Version
	if directory, known := m.found[key]; known {
		if directory == "" {
			return "", fmt.Errorf("the module %s can't be downloaded", key)
		}
		return directory, nil
	}
	directory, err := download(ctx, r.Path, r.Version)
	m.found[key] = directory
	return directory, err
}

// download returns the directory of a module in Go's cache, and downloads it first if necessary.
func download(ctx context.Context, modulePath, version string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	if strings.HasPrefix(modulePath, "-") || path.Clean(modulePath) != modulePath {
		return "", fmt.Errorf("%q is not the path of a module", modulePath)
	}
	out, err := runGo(ctx, os.TempDir(), "mod", "download", "-json", modulePath+"@"+version)
	var info struct{ Dir, Error string }
	if decodeErr := json.Unmarshal(out, &info); decodeErr != nil || info.Dir == "" {
		if info.Error != "" {
			err = errors.New(info.Error)
		}
		return "", fmt.Errorf("downloading the module %s@%s: %w", modulePath, version, errors.Join(err, decodeErr))
	}
	return info.Dir, nil
}

// runGo runs the go command. It returns the output even with an error.
func runGo(ctx context.Context, directory string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, errors.New("the go command is not in PATH: install Go, which reads the modules")
		}
		return stdout.Bytes(), fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
