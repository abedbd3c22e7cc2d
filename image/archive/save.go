//go:build linux

package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/store"
)

// Save writes images, given by canonical name, digest or id, as one archive that is both an OCI image layout and
// readable by `docker load`. The same images always produce the same bytes.
func Save(s *store.Store, to io.Writer, refs []string) error {
	defer s.Use()()
	w := &writer{tar: tar.NewWriter(to), store: s, done: map[v1.Hash]bool{}}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	docker := []dockerImage{}
	for _, ref := range refs {
		img, err := s.Find(ref)
		if err != nil {
			return err
		}
		name := ""
		if !image.IsID(ref) {
			name = ref
		} else if len(img.Names) > 0 {
			name = img.Names[0]
		}
		d, one, err := w.image(img, name)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, d)
		docker = append(docker, one)
	}
	for _, f := range []struct {
		name  string
		value any
	}{
		{"index.json", index}, {"manifest.json", docker}, {"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
	} {
		data, err := json.Marshal(f.value)
		if err != nil {
			return err
		}
		if err := w.file(f.name, int64(len(data)), bytes.NewReader(data)); err != nil {
			return err
		}
	}
	return w.tar.Close()
}

type writer struct {
	tar   *tar.Writer
	store *store.Store
	done  map[v1.Hash]bool
}

// image writes those blobs of an image that are not in the archive yet.
func (w *writer) image(img image.Image, name string) (v1.Descriptor, dockerImage, error) {
	manifest, config, layers, mediaType, err := w.store.Record(img.Digest)
	if err != nil {
		return v1.Descriptor{}, dockerImage{}, err
	}
	d := v1.Descriptor{MediaType: types.MediaType(mediaType), Digest: manifest}
	one := dockerImage{Config: blobName(config), RepoTags: []string{}}
	if name != "" {
		d.Annotations = map[string]string{nameAnnotation: name, refNameAnnotation: name}
		one.RepoTags = []string{image.Short(name)}
	}
	var size int64
	for _, h := range append([]v1.Hash{manifest, config}, layers...) {
		size, err = w.blob(h)
		if err != nil {
			return v1.Descriptor{}, dockerImage{}, err
		}
		if h == manifest {
			d.Size = size
		}
	}
	for _, h := range layers {
		one.Layers = append(one.Layers, blobName(h))
	}
	return d, one, nil
}

func blobName(h v1.Hash) string { return "blobs/sha256/" + h.Hex }

func (w *writer) blob(h v1.Hash) (int64, error) {
	size, is := w.store.HasBlob(h)
	if !is {
		return 0, image.Errorf(image.CodeNotFound, "load or pull the image again", "blob %s is missing", h)
	}
	if w.done[h] {
		return size, nil
	}
	w.done[h] = true
	f, err := w.store.OpenBlob(h)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return size, w.file(blobName(h), size, f)
}

func (w *writer) file(name string, size int64, from io.Reader) error {
	h := &tar.Header{Name: name, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
	if err := w.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	if _, err := io.Copy(w.tar, from); err != nil {
		return fmt.Errorf("writing %s of the archive: %w", name, err)
	}
	return nil
}
