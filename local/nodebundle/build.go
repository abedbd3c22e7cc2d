// Package nodebundle builds node bundles and stores those of a plane. Owned hosts install the programs and images of a
// Kubernetes version from these archives (package bundlefile describes their contents).
package nodebundle

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/image/build"
	"github.com/capstan-dev/capstan/internal/bundlefile"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/regular"
)

// NetProgram is the name of the program that connects the pods of hosts. NetImage is the name of its image in each
// bundle; the tag is a number that increases whenever the image changes.
const (
	NetProgram = "capstan-net"
	NetImage   = "capstan.dev/capstan-net:1"
)

// textLimit bounds the small files of a build, in bytes.
const textLimit = 64 << 10

// rooted is an image to build. Its path is the directory that becomes the image's root, or the program that the image
// consists of.
type rooted struct{ name, path, entrypoint string }

// Build makes a bundle from what kube/stock has built in the directory dir. The program at the path net gets an image
// of its own in the bundle. Build writes the bundle to the path out, either completely or not at all, and returns the
// manifest. All programs must be for the architecture that kube/stock was asked for.
func Build(dir, net, out string, say func(string)) (*bundlefile.Manifest, error) {
	m, images, err := plan(dir)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(out), ".capstan-bundle-")
	if err != nil {
		return nil, fmt.Errorf("building a bundle: %w", err)
	}
	defer os.RemoveAll(scratch)
	images = append(images, rooted{name: NetImage, path: net})
	for _, part := range []string{"bin", "cni", "images", ""} {
		path := filepath.Join(dir, part)
		if part == "" {
			path = net
		}
		if err := checkPrograms(path, m.Architecture); err != nil {
			return nil, err
		}
	}
	for _, i := range images {
		say("image " + i.name)
		if err := i.build(m, scratch); err != nil {
			return nil, err
		}
	}
	say("packing")
	file, err := os.Create(filepath.Join(scratch, "bundle"))
	if err != nil {
		return nil, fmt.Errorf("building a bundle: %w", err)
	}
	defer file.Close()
	err = bundlefile.Write(file, m, func(path string) string {
		if strings.HasPrefix(path, "images/") {
			return filepath.Join(scratch, filepath.Base(path))
		}
		return filepath.Join(dir, path)
	})
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		err = os.Rename(file.Name(), out)
	}
	if err != nil {
		return nil, fmt.Errorf("building a bundle: %w", err)
	}
	return m, nil
}

// build writes the image to a file in the directory scratch, and lists that file in the manifest.
func (i rooted) build(m *bundlefile.Manifest, scratch string) error {
	repository, _, _ := strings.Cut(i.name, ":")
	name := filepath.Base(repository) + ".tar"
	file, err := os.Create(filepath.Join(scratch, name))
	if err != nil {
		return err
	}
	defer file.Close()
	o := build.Options{Name: i.name, Path: i.path, Architecture: m.Architecture, User: "0:0"}
	if i.entrypoint != "" {
		o.Entrypoint = []string{i.entrypoint}
	}
	if err := build.Build(o, file); err != nil {
		return fmt.Errorf("building image %s: %w", i.name, err)
	}
	m.Files = append(m.Files, bundlefile.File{Path: "images/" + name})
	m.Images = append(m.Images, bundlefile.Image{Name: i.name, Path: "images/" + name})
	return file.Close()
}

// advice says what to do about a directory that can't be packed.
const advice = "create the directory first: kube/stock VERSION DIRECTORY"

// Architecture returns the architecture of what kube/stock has built in dir.
func Architecture(dir string) (string, error) {
	_, arch, err := stockOf(dir)
	return arch, err
}

// stockOf returns the version and the architecture of what kube/stock has built.
func stockOf(dir string) (version, arch string, err error) {
	text, err := regular.Read(filepath.Join(dir, "version"), textLimit)
	if err != nil {
		return "", "", hint.Errorf(advice, "%s was not written by kube/stock: %w", dir, err)
	}
	version, arch, _ = strings.Cut(strings.TrimSpace(string(text)), " ")
	if !bundlefile.ValidVersion(version) || !bundlefile.ValidArchitecture(arch) {
		return "", "", hint.Errorf(advice, "%s does not record its version of Kubernetes", dir)
	}
	return version, arch, nil
}

// plan returns the manifest of a directory's contents, and its images, which have no files yet.
func plan(dir string) (*bundlefile.Manifest, []rooted, error) {
	version, arch, err := stockOf(dir)
	if err != nil {
		return nil, nil, err
	}
	m := &bundlefile.Manifest{Kubernetes: version, Architecture: arch}
	for _, part := range []string{"bin", "cni"} {
		entries, err := os.ReadDir(filepath.Join(dir, part))
		if err != nil {
			return nil, nil, hint.Errorf(advice, "%s has no programs: %w", dir, err)
		}
		for _, entry := range entries {
			m.Files = append(m.Files, bundlefile.File{Path: part + "/" + entry.Name()})
		}
	}
	text, err := regular.Read(filepath.Join(dir, "image-list"), textLimit)
	if err != nil {
		return nil, nil, hint.Errorf(advice, "%s has no list of images: %w", dir, err)
	}
	var images []rooted
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || len(fields) > 3 || !fs.ValidPath(fields[1]) {
			return nil, nil, hint.Errorf(advice, "%s has an invalid line in its list of images: %q", dir,
				strings.TrimSpace(line))
		}
		images = append(images, rooted{name: fields[0], path: filepath.Join(dir, "images", fields[1]),
			entrypoint: strings.Join(fields[2:], "")})
	}
	slices.SortFunc(images, func(a, b rooted) int { return strings.Compare(a.name, b.name) })
	return m, images, nil
}
