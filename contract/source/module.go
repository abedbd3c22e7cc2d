package source

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// moduleDepth is how many levels below the root the bases of a module may be.
const moduleDepth = 4

// notProviders are directories of a module whose bases are not part of a release.
var notProviders = []string{
	"docs", "examples", "extension", "extensions", "hack", "node_modules", "samples", "scripts", "test", "testdata",
	"tests", "third_party", "vendor",
}

// providerBases are the names of bases below config in modules with several providers.
var providerBases = []string{"bootstrap", "controlplane", "control-plane", "infrastructure", "ipam"}

// openModule reads the source of a provider, or of several providers released together. It reads templates once.
func (r Reader) openModule(dir string, bases []string) ([]*Release, error) {
	shared, err := r.openFiles(filepath.Join(dir, "metadata.yaml"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pattern := range []string{"cluster-template*.yaml", "clusterclass-*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dir, "templates", pattern))
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	templates, err := r.openFiles(names...)
	if err != nil {
		return nil, err
	}
	var all []*Release
	for _, base := range bases {
		release := &Release{Path: base, Form: Module}
		if len(bases) == 1 {
			release.Path = dir
		}
		rendered, err := r.render(base)
		switch {
		case err == nil:
			release.Files = append(release.Files, rendered)
		case len(shared) == 0 && len(templates) == 0:
			return nil, err
		default:
			release.Problem = err
		}
		release.Files = append(append(release.Files, shared...), templates...)
		templates = nil
		all = append(all, release)
	}
	return all, nil
}

// openFiles reads the files that exist.
func (r Reader) openFiles(names ...string) ([]*File, error) {
	var all []*File
	for _, name := range names {
		if !isFile(name) {
			continue
		}
		f, err := r.openFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// basesOf returns the bases that make up the components of a module. It returns none if the directory is not the source
// of a provider.
func basesOf(dir string) []string {
	standard := filepath.Join(dir, "config", "default")
	isModule := isFile(filepath.Join(dir, "go.mod"))
	if isBase(standard) {
		return []string{standard}
	}
	if !isModule {
		return nil
	}
	for _, name := range []string{"config", "config/crd"} {
		if base := filepath.Join(dir, filepath.FromSlash(name)); isBase(base) {
			return []string{base}
		}
	}
	return providersBelow(dir)
}

// providersBelow looks for the bases of several providers in one module: config/default of each, or a base below config
// named after a provider type.
func providersBelow(dir string) []string {
	var all []string
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || path == dir {
			return nil // an unreadable directory holds no base
		}
		below, _ := filepath.Rel(dir, path)
		steps := strings.Split(filepath.ToSlash(below), "/")
		name := steps[len(steps)-1]
		if strings.HasPrefix(name, ".") || slices.Contains(notProviders, name) || len(steps) > moduleDepth {
			return fs.SkipDir
		}
		inConfig := slices.Contains(steps[:len(steps)-1], "config")
		isDefault := name == "default" && len(steps) > 1 && steps[len(steps)-2] == "config"
		if isBase(path) && (isDefault || inConfig && slices.Contains(providerBases, name)) {
			all = append(all, path)
			return fs.SkipDir
		}
		return nil
	})
	return all
}
