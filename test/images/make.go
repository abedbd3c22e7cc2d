package images

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NameAnnotation is the annotation with the name of an image in the layout.
const NameAnnotation = "io.containerd.image.name"

// maker builds images.
type maker struct {
	root, temp string
	say        func(string)
	debian     *debian
	kubernetes string // the directory of the module
	made       map[string]v1.Image
	layers     map[string]v1.Layer // layers of packages, by the packages' names
}

// Make builds the images of a suite in the OCI layout at DIR/SUITE, unless they already exist, and returns its path.
// root is the root of our sources. Downloads stay in DIR. Make passes progress messages to the function say.
func Make(ctx context.Context, root, dir, suite string, say func(string)) (string, error) {
	table, err := Read()
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, suite)
	m := &maker{root: root, say: say, made: map[string]v1.Image{}, layers: map[string]v1.Layer{},
		debian: &debian{dir: filepath.Join(dir, "debian"), locked: map[string][]pinned{}, leftOut: table.LeftOut}}
	lock := filepath.Join(dir, "packages.lock")
	if data, err := os.ReadFile(lock); err == nil {
		if err := json.Unmarshal(data, &m.debian.locked); err != nil {
			return "", fmt.Errorf("reading %s: %w", lock, err)
		}
	}
	all := table.Of(suite)
	if len(all) == 0 {
		return "", fmt.Errorf("the table has no images for %q", suite)
	}
	key, err := m.key(all)
	if err != nil {
		return "", err
	}
	if old, err := os.ReadFile(filepath.Join(out, "key")); err == nil && string(old) == key {
		return out, nil
	}
	if m.temp, err = os.MkdirTemp("", "capstan-testimages-"); err != nil {
		return "", err
	}
	defer os.RemoveAll(m.temp)
	if m.kubernetes, err = Module(ctx, root, "k8s.io/kubernetes"); err != nil {
		return "", err
	}
	if err := m.layout(ctx, out, all); err != nil {
		return "", err
	}
	if m.debian.changed {
		data, err := json.MarshalIndent(m.debian.locked, "", "\t")
		if err == nil {
			err = os.WriteFile(lock, append(data, '\n'), 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	if key, err = m.key(all); err != nil {
		return "", err
	}
	return out, os.WriteFile(filepath.Join(out, "key"), []byte(key), 0o644)
}

// key identifies everything that the images are built from: our sources, the modules, the packages, the Go release.
func (m *maker) key(all []Image) (string, error) {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	enc.Encode([]any{all, m.debian.locked, m.debian.leftOut, runtime.Version(), runtime.GOARCH})
	files, err := filepath.Glob(filepath.Join(m.root, "test/images/*.go"))
	if err != nil {
		return "", err
	}
	for _, name := range append(files, filepath.Join(m.root, Suite, "go.mod")) {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// layout writes all images, and replaces an existing layout.
func (m *maker) layout(ctx context.Context, out string, all []Image) error {
	next := out + ".next"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	path, err := layout.Write(next, empty.Index)
	if err != nil {
		return fmt.Errorf("making the layout: %w", err)
	}
	for _, img := range all {
		m.say("making " + img.Names[0])
		made, err := m.image(ctx, img)
		if err != nil {
			return fmt.Errorf("making image %s: %w", img.Names[0], err)
		}
		m.made[img.Names[0]] = made
		for _, name := range img.Names {
			if err := path.AppendImage(made, layout.WithAnnotations(map[string]string{NameAnnotation: name})); err != nil {
				return fmt.Errorf("writing image %s: %w", name, err)
			}
		}
	}
	if err := readable(next); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(next, out)
}

// readable lets other users read a layout, because suites run as different users.
func readable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o644)
		if err == nil && d.IsDir() {
			mode = 0o755
		}
		return errors.Join(err, os.Chmod(path, mode))
	})
}

// image builds one image.
func (m *maker) image(ctx context.Context, img Image) (v1.Image, error) {
	made := v1.Image(empty.Image)
	var config v1.ConfigFile
	var layers []v1.Layer
	if img.Base == "" {
		made = mutate.ConfigMediaType(mutate.MediaType(made, types.OCIManifestSchema1), types.OCIConfigJSON)
		config = v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux"}
		config.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		if len(img.Packages) > 0 {
			l, err := m.packages(ctx, img)
			if err != nil {
				return nil, err
			}
			layers = append(layers, l)
		}
	} else {
		made = m.made[img.Base]
		base, err := made.ConfigFile()
		if err != nil {
			return nil, err
		}
		config = *base.DeepCopy()
	}
	own, err := m.files(ctx, img)
	if err != nil {
		return nil, err
	}
	layers = append(layers, own...)
	if made, err = mutate.AppendLayers(made, layers...); err != nil {
		return nil, err
	}
	with, err := made.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.RootFS, config.History = with.RootFS, nil
	c := &config.Config
	if len(img.Entrypoint) > 0 {
		c.Entrypoint = img.Entrypoint
	}
	if len(img.Command) > 0 {
		c.Cmd = img.Command
	}
	c.Env = slices.Concat(c.Env, img.Env)
	c.User, c.WorkingDir = cmp.Or(img.User, c.User), cmp.Or(img.Dir, c.WorkingDir)
	return mutate.ConfigFile(made, &config)
}

// packages returns the layer with the packages of an image, its users, and links for busybox's programs.
func (m *maker) packages(ctx context.Context, img Image) (v1.Layer, error) {
	key := strings.Join(slices.Concat(img.Packages, img.KeepPrograms, img.Users, img.Groups), "\n")
	if l := m.layers[key]; l != nil {
		return l, nil
	}
	debs, err := m.debian.get(ctx, img.Packages)
	if err != nil {
		return nil, err
	}
	t := newTree()
	if err := unpack(ctx, t, debs); err != nil {
		return nil, err
	}
	if len(img.KeepPrograms) > 0 {
		t.keepPrograms(img.KeepPrograms)
	}
	t.skeleton(img.Users, img.Groups)
	if program, is := t.files[busybox]; is {
		names, err := m.appletsOf(ctx, program.data)
		if err != nil {
			return nil, err
		}
		t.applets(names)
	}
	l, err := layerOf(t)
	m.layers[key] = l
	return l, err
}

// appletsOf asks busybox for the names of its programs.
func (m *maker) appletsOf(ctx context.Context, program []byte) ([]string, error) {
	file := filepath.Join(m.temp, "busybox")
	if err := os.WriteFile(file, program, 0o755); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, file, "--list-full").Output()
	if err != nil {
		return nil, fmt.Errorf("asking busybox what it can do: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// files returns the layers with an image's own programs and files: one layer for each program, which images can share,
// and one for the rest.
func (m *maker) files(ctx context.Context, img Image) ([]v1.Layer, error) {
	var layers []v1.Layer
	for _, name := range slices.Sorted(maps.Keys(img.Programs)) {
		p := img.Programs[name]
		data, err := p.build(ctx, m.root, m.temp)
		if err != nil {
			return nil, err
		}
		mode, err := modeOf(cmp.Or(p.Mode, "0755"))
		if err != nil {
			return nil, err
		}
		t := newTree()
		t.text(name, mode, data)
		l, err := layerOf(t)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	t := newTree()
	for name, from := range img.Copies {
		data, err := os.ReadFile(filepath.Join(m.kubernetes, from))
		if err != nil {
			return nil, err
		}
		t.text(name, 0o644, data)
	}
	for name, text := range img.Texts {
		t.text(name, 0o644, []byte(text))
	}
	for name, target := range img.Links {
		t.link(name, target)
	}
	for name, text := range img.Dirs {
		mode, err := modeOf(text)
		if err != nil {
			return nil, err
		}
		t.dir(name, mode)
	}
	if len(t.files) == 0 {
		return layers, nil
	}
	l, err := layerOf(t)
	return append(layers, l), err
}

func modeOf(octal string) (int64, error) { return strconv.ParseInt(octal, 8, 64) }

// layerOf packs a layer without compressing it, because compressed bytes differ from one Go release to the next.
func layerOf(t *tree) (v1.Layer, error) {
	data, err := t.write()
	return static.NewLayer(data, types.OCIUncompressedLayer), err
}
