package release

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NonRoot is the user and group id that containers run as.
const NonRoot = 65532

// image builds an image of static programs, for each architecture (GOARCH), as an OCI archive. A container of the image
// runs the program that has the image's name. The image contains only the programs and the names of its user: no shell,
// no libraries, no package manager.
func image(o Options, name string, programs map[string][]program, date time.Time) ([]byte, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(programs)) {
		var binaries []entry
		for _, p := range programs[arch] {
			binary, err := os.ReadFile(p.file)
			if err != nil {
				return nil, fmt.Errorf("reading %s for %s: %w", p.name, arch, err)
			}
			binaries = append(binaries, entry{p.name, p.mode, binary})
		}
		one, err := single(name, arch, o.Version, binaries, date)
		if err != nil {
			return nil, fmt.Errorf("making image %s for %s: %w", name, arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return archive(index, o.Image(name), date)
}

// single builds the image for one architecture.
func single(name, arch, version string, binaries []entry, date time.Time) (v1.Image, error) {
	user := fmt.Sprintf("nonroot:x:%d:%d:nonroot:/:/sbin/nologin\n", NonRoot, NonRoot)
	group := fmt.Sprintf("nonroot:x:%d:\n", NonRoot)
	content, err := tape(date, append([]entry{{"etc/passwd", 0o644, []byte(user)}, {"etc/group", 0o644, []byte(group)}},
		binaries...))
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	},
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	filled, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := filled.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: date}
	config.Config = v1.Config{
		Entrypoint: []string{"/" + name}, User: fmt.Sprintf("%d:%d", NonRoot, NonRoot), WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title": name, "org.opencontainers.image.version": version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(filled, config)
}

// archive writes an index as an OCI layout to a tar file, under the image's name in a registry.
func archive(index v1.ImageIndex, name string, date time.Time) ([]byte, error) {
	dir, err := os.MkdirTemp("", "capstan-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := to.AppendIndex(index,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name})); err != nil {
		return nil, fmt.Errorf("writing %s: %w", name, err)
	}
	var files []entry
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, file)
		files = append(files, entry{filepath.ToSlash(inside), 0o644, text})
		return err
	})
	if err != nil {
		return nil, err
	}
	return tape(date, files)
}

// entry is a file of a tar archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// tape writes a tar archive of files in this order, with their directories. All belong to root and have the same date.
func tape(date time.Time, files []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	var parents func(dir string) error
	parents = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := parents(path.Dir(dir)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: date})
	}
	for _, f := range files {
		if err := parents(path.Dir(f.name)); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: date,
		}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
