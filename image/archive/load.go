//go:build linux

// Package archive loads images into the store from archives and saves images to one. It reads the output of `docker
// save` and OCI image layouts.
package archive

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/image/store"
)

// Annotations of an OCI layout that name an image.
const (
	nameAnnotation    = "io.containerd.image.name"
	refNameAnnotation = "org.opencontainers.image.ref.name"
)

// maxFiles bounds the files in an archive, maxImages the images.
const (
	maxFiles  = 20_000
	maxImages = 1000
)

// loaded is an image from the archive that is now in the store.
type loaded struct {
	manifest v1.Hash
	names    []string
}

// file is a file of the archive, stored as a blob.
type file struct {
	hash v1.Hash
	size int64
}

// loader reads one archive.
type loader struct {
	store *store.Store
	say   func(string)
	files map[string]file
	links map[string]string
}

// Load adds the images of an archive, optionally compressed with gzip or zstd, to the store. If name is not empty, it
// becomes the name of the archive's only image. Load calls the function say with its progress.
func Load(ctx context.Context, s *store.Store, from io.Reader, name string, say func(string)) ([]image.Image, error) {
	done := s.Use()
	defer s.Collect()
	defer done()
	l := &loader{store: s, say: say, files: map[string]file{}, links: map[string]string{}}
	if err := l.spool(ctx, from); err != nil {
		return nil, err
	}
	found, err := l.images(ctx)
	if err != nil {
		return nil, err
	}
	if name != "" {
		if len(found) != 1 {
			return nil, image.Errorf(image.CodeInvalid, "leave --name out",
				"the archive holds %d images, and one name was given", len(found))
		}
		found[0].names = []string{name}
	}
	for i, f := range found {
		if len(f.names) == 0 {
			return nil, image.Errorf(image.CodeInvalid, "give it a name: --name NAME:TAG",
				"image %s of the archive has no name", f.manifest)
		}
		for j, n := range f.names {
			if found[i].names[j], err = image.Canonical(n); err != nil {
				return nil, err
			}
		}
	}
	var all []image.Image
	for _, f := range found {
		if err := s.Add(ctx, f.manifest, say); err != nil {
			return nil, err
		}
		for _, n := range f.names {
			if err := s.Tag(n, f.manifest.String()); err != nil {
				return nil, err
			}
		}
		img, err := s.Describe(f.manifest.String())
		if err != nil {
			return nil, err
		}
		img.Config = nil
		all = append(all, img)
	}
	return all, nil
}

// spool stores every file of the archive as a blob, because the file that describes the others may come last.
func (l *loader) spool(ctx context.Context, from io.Reader) error {
	stream, closer, err := store.Unpacked(from)
	if err != nil {
		return err
	}
	defer closer()
	archive := tar.NewReader(stream)
	for n := 0; ; n++ {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return image.Errorf(image.CodeInvalid, formats, "this is not an archive of images: %v", err)
		}
		if n >= maxFiles {
			return layer.Refuse("the archive has more than %d files", maxFiles)
		}
		name := path.Clean("/" + h.Name)[1:]
		switch h.Typeflag {
		case tar.TypeReg:
			l.say("reading " + name)
			hash, size, err := l.store.Ingest(ctx, archive)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return image.Errorf(image.CodeInvalid, "was it copied as a whole?", "the archive ends in the middle of %s", name)
			}
			if err != nil {
				return err
			}
			l.files[name] = file{hash, size}
		case tar.TypeSymlink:
			l.links[name] = path.Join("/", path.Dir(name), h.Linkname)[1:]
		case tar.TypeLink:
			l.links[name] = path.Clean("/" + h.Linkname)[1:]
		}
	}
	return nil
}

const formats = "use the output of docker save, or an OCI image layout as a directory or an archive"

// find returns a file of the archive.
func (l *loader) find(name string) (file, bool) {
	name = path.Clean("/" + name)[1:]
	for range 4 {
		if f, is := l.files[name]; is {
			return f, true
		}
		name = l.links[name]
	}
	return file{}, false
}

// read decodes a JSON file.
func (l *loader) read(name string, into any) (bool, error) {
	f, is := l.find(name)
	if !is {
		return false, nil
	}
	data, err := l.store.ReadBlob(f.hash, store.MaxManifest)
	if err != nil {
		return true, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return true, layer.Refuse("%s of the archive can't be read: %v", name, err)
	}
	return true, nil
}

// images finds the images of the archive.
func (l *loader) images(ctx context.Context) ([]loaded, error) {
	var index v1.IndexManifest
	is, err := l.read("index.json", &index)
	if err != nil {
		return nil, err
	}
	if is {
		return l.layout(index)
	}
	var docker []dockerImage
	if is, err = l.read("manifest.json", &docker); err != nil {
		return nil, err
	}
	if !is {
		return nil, image.Errorf(image.CodeInvalid, formats, "the archive has neither index.json nor manifest.json")
	}
	if len(docker) > maxImages {
		return nil, layer.Refuse("the archive holds more than %d images", maxImages)
	}
	var all []loaded
	for _, d := range docker {
		one, err := l.docker(ctx, d)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// layout finds the images of an OCI layout. Each blob must match the digest in its name.
func (l *loader) layout(index v1.IndexManifest) ([]loaded, error) {
	for name, f := range l.files {
		if hex, is := strings.CutPrefix(name, "blobs/sha256/"); is && hex != f.hash.Hex {
			return nil, layer.Refuse("the archive is damaged: %s has the digest %s", name, f.hash)
		}
	}
	if len(index.Manifests) > maxImages {
		return nil, layer.Refuse("the archive holds more than %d images", maxImages)
	}
	var docker []dockerImage // `docker save` writes the names there
	if _, err := l.read("manifest.json", &docker); err != nil {
		return nil, err
	}
	var all []loaded
	for _, d := range index.Manifests {
		manifest, err := l.choose(d, 0)
		if err != nil {
			return nil, err
		}
		one := loaded{manifest: manifest}
		ref := d.Annotations[refNameAnnotation]
		switch {
		case d.Annotations[nameAnnotation] != "":
			one.names = []string{d.Annotations[nameAnnotation]}
		case strings.ContainsAny(ref, ":/"):
			one.names = []string{ref}
		case len(index.Manifests) == 1 && len(docker) == 1:
			one.names = docker[0].RepoTags
		}
		all = append(all, one)
	}
	return merge(all), nil
}

// merge returns one entry for each image, with all its names.
func merge(all []loaded) []loaded {
	var merged []loaded
	at := map[v1.Hash]int{}
	for _, one := range all {
		i, is := at[one.manifest]
		if !is {
			at[one.manifest] = len(merged)
			merged = append(merged, one)
			continue
		}
		merged[i].names = append(merged[i].names, one.names...)
	}
	return merged
}

// choose returns the manifest that a descriptor leads to. From an index, it chooses the manifest for this machine.
func (l *loader) choose(d v1.Descriptor, depth int) (v1.Hash, error) {
	if !d.MediaType.IsIndex() {
		if !d.MediaType.IsImage() && d.MediaType != "" {
			return v1.Hash{}, layer.Refuse("the archive holds something that is not an image: %s", d.MediaType)
		}
		if _, is := l.store.HasBlob(d.Digest); !is || d.Digest.Algorithm != "sha256" {
			return v1.Hash{}, layer.Refuse("the archive lacks the manifest %s", d.Digest)
		}
		return d.Digest, nil
	}
	if depth > 2 || d.Digest.Algorithm != "sha256" {
		return v1.Hash{}, layer.Refuse("the archive nests indexes too deeply")
	}
	data, err := l.store.ReadBlob(d.Digest, store.MaxManifest)
	if err != nil {
		return v1.Hash{}, err
	}
	next, err := Choose(data)
	if err != nil {
		return v1.Hash{}, err
	}
	return l.choose(next, depth+1)
}

// Choose returns the image in an index that fits this machine.
func Choose(index []byte) (v1.Descriptor, error) {
	m, err := v1.ParseIndexManifest(strings.NewReader(string(index)))
	if err != nil {
		return v1.Descriptor{}, layer.Refuse("the image's index can't be read: %v", err)
	}
	want := store.Platform()
	var have []string
	for _, d := range m.Manifests {
		if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
			continue
		}
		if d.Platform == nil || d.Platform.OS == want.OS && d.Platform.Architecture == want.Architecture {
			return d, nil
		}
		if d.Platform.OS != "unknown" && len(have) < 20 {
			have = append(have, d.Platform.String())
		}
	}
	return v1.Descriptor{}, layer.Refuse("the image is for %s, but this machine is %s",
		cmp.Or(strings.Join(have, ", "), "no platform"), want.String())
}

// dockerImage is one image in the manifest.json that `docker save` writes.
type dockerImage struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// docker creates a manifest for an image from `docker save`, which has none.
func (l *loader) docker(ctx context.Context, d dockerImage) (loaded, error) {
	config, is := l.find(d.Config)
	if !is {
		return loaded{}, layer.Refuse("the archive lacks the configuration %q", d.Config)
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	m.Config = v1.Descriptor{MediaType: types.OCIConfigJSON, Digest: config.hash, Size: config.size}
	for _, name := range d.Layers {
		f, is := l.find(name)
		if !is {
			return loaded{}, layer.Refuse("the archive lacks the layer %q", name)
		}
		kind, err := l.kind(f.hash)
		if err != nil {
			return loaded{}, err
		}
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: kind, Digest: f.hash, Size: f.size})
	}
	data, err := json.Marshal(m)
	if err != nil {
		return loaded{}, err
	}
	hash, err := l.store.PutBlob(ctx, data)
	return loaded{manifest: hash, names: d.RepoTags}, err
}

// kind returns the media type of a packed layer.
func (l *loader) kind(h v1.Hash) (types.MediaType, error) {
	f, err := l.store.OpenBlob(h)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var head [4]byte
	n, err := io.ReadFull(f, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch {
	case strings.HasPrefix(string(head[:n]), "\x1f\x8b"):
		return types.OCILayer, nil
	case string(head[:n]) == "\x28\xb5\x2f\xfd":
		return types.OCILayerZStd, nil
	}
	return types.OCIUncompressedLayer, nil
}
