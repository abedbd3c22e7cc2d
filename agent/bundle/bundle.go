// Package bundle installs bundles. A bundle contains the programs of one Kubernetes version. For local hosts, it is one
// binary with many names. For owned hosts, it holds the stock programs and the images that a cluster starts with.
package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
)

// Binary is the name of a bundle's binary, DIR/VERSION/capstan-kube.
const Binary = "capstan-kube"

// LinkDir is where the programs of a bundle are linked: it precedes the system's own programs in the search path.
const LinkDir = "/usr/local/bin"

// programs are linked from every bundle.
var programs = []string{Binary, "kubeadm", "kubelet", "kubectl"}

// tools are programs that kubeadm requires. They are linked only if the host lacks them and the bundle has them.
var tools = []string{"mount", "umount", "cp", "losetup"}

// Versions returns the versions of the bundles in dir, newest first; nil if dir does not exist.
func Versions(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing bundles: %w", err)
	}
	known := map[string]*version.Version{}
	var names []string
	for _, entry := range entries {
		v, err := version.ParseSemantic(entry.Name())
		if err != nil || !strings.HasPrefix(entry.Name(), "v") {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, entry.Name(), Binary)); err != nil || !info.Mode().IsRegular() ||
			info.Mode()&0o111 == 0 {
			continue
		}
		known[entry.Name()] = v
		names = append(names, entry.Name())
	}
	slices.SortFunc(names, func(a, b string) int {
		if known[a].LessThan(known[b]) {
			return 1
		}
		if known[b].LessThan(known[a]) {
			return -1
		}
		return strings.Compare(a, b)
	})
	return names, nil
}

// Install links the programs of a version from dir to linkDir. If the host has no bundle at all, Install does nothing
// and the host uses its own programs; if required is true, Install returns an error instead. Install never replaces
// programs in linkDir that are not ours.
func Install(ctx context.Context, dir, linkDir, wanted string, required bool) error {
	versions, err := Versions(dir)
	if err != nil {
		return fault.New(err, "the bundles of this host can't be listed")
	}
	switch {
	case wanted == "":
		return nil
	case len(versions) == 0 && !required:
		return nil
	case len(versions) == 0:
		return fault.New(nil, "this host has no bundle in %s; install the one of Kubernetes %s", dir, wanted)
	case !slices.Contains(versions, wanted):
		return fault.New(nil, "this host has no bundle of Kubernetes %s in %s; it has %s", wanted, dir,
			strings.Join(versions, ", "))
	}
	binary := filepath.Join(dir, wanted, Binary)
	names := slices.Clone(programs)
	missing, err := missingTools(ctx, binary)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(linkDir, 0o755); err != nil {
		return fault.New(err, "%s can't be made", linkDir)
	}
	for _, name := range append(names, missing...) {
		if err := link(dir, binary, filepath.Join(linkDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// missingTools returns the tools that the host lacks and the bundle has.
func missingTools(ctx context.Context, binary string) ([]string, error) {
	var missing []string
	for _, tool := range tools {
		if _, err := command.Find(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	var out strings.Builder
	if err := (command.Command{Args: []string{binary, "versions"}, Output: &out}).Run(ctx); err != nil {
		return nil, fault.New(err, "the bundle's binary can't run; is it for this host's architecture?")
	}
	var contents struct{ Applets []string }
	if err := json.Unmarshal([]byte(out.String()), &contents); err != nil {
		return nil, fault.New(err, "the bundle's binary does not list its programs")
	}
	return slices.DeleteFunc(missing, func(tool string) bool { return !slices.Contains(contents.Applets, tool) }), nil
}

// link makes path a link to binary. dir is the directory of all bundles; links into it are ours.
func link(dir, binary, path string) error {
	if _, err := os.Lstat(path); err == nil && !ours(dir, path) {
		return fault.New(nil, "%s does not come from a bundle; remove it, or start the host without a bundle", path)
	}
	next := path + ".capstan"
	_ = os.Remove(next)
	if err := os.Symlink(binary, next); err != nil {
		return fault.New(err, "%s can't be linked", path)
	}
	if err := os.Rename(next, path); err != nil {
		return fault.New(err, "%s can't be linked", path)
	}
	return nil
}

// ours reports whether path is a link to a bundle's binary, or to a program of a bundle for owned hosts.
func ours(dir, path string) bool {
	to, err := os.Readlink(path)
	if err != nil || !strings.HasPrefix(to, dir+"/") {
		return false
	}
	part := filepath.Base(filepath.Dir(to))
	return filepath.Base(to) == Binary || part == "bin" || part == "cni"
}

// Remove removes all links to bundles in dir from linkDir.
func Remove(dir, linkDir string) error {
	links, err := Links(dir, linkDir)
	if err != nil {
		return err
	}
	for _, path := range links {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing the links to the bundle: %w", err)
		}
	}
	return nil
}

// Links returns the links in linkDir that lead to bundles in dir.
func Links(dir, linkDir string) ([]string, error) {
	entries, err := os.ReadDir(linkDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the links to the bundle: %w", err)
	}
	var links []string
	for _, entry := range entries {
		if path := filepath.Join(linkDir, entry.Name()); ours(dir, path) {
			links = append(links, path)
		}
	}
	return links, nil
}
