package providers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// allowedFile contains the paths of the files that may run, one per line.
const allowedFile = "provider-binaries"

// Allow lets the plane in directory dir run the file at this absolute path for Deployments that ask for it, until the
// directory is removed.
func Allow(dir, path string) error {
	if !filepath.IsAbs(path) || strings.ContainsAny(path, "\r\n") {
		return fmt.Errorf("%q is not the absolute path of a program", path)
	}
	all, err := allowed(dir)
	if err != nil || slices.Contains(all, path) {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, allowedFile), []byte(strings.Join(append(all, path), "\n")+"\n"), 0o600)
}

// allowed returns the files that may run.
func allowed(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, allowedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which programs may run: %w", err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}
