package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Limits on what is read: bytes per file, files, and levels of directories.
const (
	maxFile  = 32 << 20
	maxFiles = 2000
	maxDepth = 6
)

// NothingError reports a path without a release.
type NothingError struct{ Path string }

// Error says what was expected.
func (e *NothingError) Error() string {
	return "there is no release of a provider in " + e.Path
}

// Hint says what to pass instead.
func (e *NothingError) Hint() string {
	return "name a directory with metadata.yaml and *-components.yaml, an archive of one, a kustomize base, " +
		"a components " +
		"file, or the root of a Go module that has config/default"
}

// Reader reads releases. The zero value is ready to use.
type Reader struct {
	// Variables are the values of clusterctl's variables by name, as its users set them in the environment. A variable
	// that is empty or missing here has its default value.
	Variables map[string]string
	// Clusters are files with Clusters. A release with the ClusterClass of one of these Clusters gets the file in the
	// role [Given], and the class is rendered with the Cluster's variables as well.
	Clusters []string
}

// Open reads the releases at a path as the zero [Reader] does.
func Open(name string) ([]*Release, error) { return Reader{}.Open(name) }

// Open reads the releases at a path: see the package's comment. It returns at least one release, or an error.
func (r Reader) Open(name string) ([]*Release, error) {
	releases, err := r.open(name)
	if err != nil {
		return nil, err
	}
	return releases, r.give(releases)
}

func (r Reader) open(name string) ([]*Release, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		releases, err := r.openDirectory(name, 0)
		if err == nil && len(releases) == 0 {
			err = &NothingError{name}
		}
		return releases, err
	case isArchive(name):
		return r.openArchive(name)
	}
	f, err := r.openFile(name)
	if err != nil {
		return nil, err
	}
	if f.Role == Other && f.Problem == nil {
		return nil, &NothingError{name}
	}
	if f.Role == Other {
		f.Role = Components
	}
	return []*Release{{Path: name, Form: Manifest, Files: []*File{f}}}, nil
}

// openDirectory reads a directory: a base, a module, a release, or directories that contain these.
func (r Reader) openDirectory(dir string, depth int) ([]*Release, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if bases := basesOf(dir); len(bases) > 0 {
		return r.openModule(dir, bases)
	}
	if isBase(dir) {
		f, err := r.render(dir)
		return one(&Release{Path: dir, Form: Base, Files: []*File{f}}, err)
	}
	release, err := r.openRepository(dir, entries)
	if err != nil || release != nil {
		return one(release, err)
	}
	if depth == maxDepth {
		return nil, nil
	}
	var all []*Release
	for _, entry := range entries {
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		found, err := r.openDirectory(filepath.Join(dir, entry.Name()), depth+1)
		if err != nil {
			return nil, err
		}
		if all = append(all, found...); len(all) > maxFiles {
			return nil, fmt.Errorf("%s holds more than %d releases: name one of them", dir, maxFiles)
		}
	}
	return all, nil
}

func one(release *Release, err error) ([]*Release, error) {
	if err != nil {
		return nil, err
	}
	return []*Release{release}, nil
}

var versionName = regexp.MustCompile(`^v\d+\.\d+\.\d+`)

// openRepository reads a release directory. It returns nil if the directory is not one.
func (r Reader) openRepository(dir string, entries []os.DirEntry) (*Release, error) {
	release := &Release{Path: dir, Form: Repository}
	for _, entry := range entries {
		if entry.IsDir() || !isYAML(entry.Name()) {
			continue
		}
		f, err := r.openFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if release.Files = append(release.Files, f); len(release.Files) > maxFiles {
			return nil, fmt.Errorf("%s holds more than %d files", dir, maxFiles)
		}
	}
	roles := func(f *File) bool { return f.Role == Metadata || f.Role == Components }
	if !slices.ContainsFunc(release.Files, roles) {
		return nil, nil
	}
	name, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	parent := filepath.Base(filepath.Dir(name))
	if versionName.MatchString(filepath.Base(name)) || typeOfLabel(parent) != "" {
		release.Version = filepath.Base(name)
		if typeOfLabel(parent) != "" {
			release.Label = parent
		}
	}
	return release, nil
}

// openFile reads one file.
func (r Reader) openFile(name string) (*File, error) {
	text, err := readBounded(name)
	if err != nil {
		return nil, err
	}
	return r.readFile(name, text), nil
}

func readBounded(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB", name, maxFile>>20)
	}
	return text, err
}

func isYAML(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// isBase reports whether a directory is a kustomize base.
func isBase(dir string) bool {
	for _, name := range kustomizations {
		if isFile(filepath.Join(dir, name)) {
			return true
		}
	}
	return false
}

// IsNothing reports whether an error means that there is no release, or no file.
func IsNothing(err error) bool {
	var nothing *NothingError
	return errors.As(err, &nothing) || errors.Is(err, fs.ErrNotExist)
}
