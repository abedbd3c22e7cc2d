//go:build linux

package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// Platform returns the platform of the images that the store accepts.
func Platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// ParseManifest parses an image's manifest and checks what the store relies on.
func ParseManifest(data []byte) (*v1.Manifest, error) {
	m, err := v1.ParseManifest(bytes.NewReader(data))
	if err != nil {
		return nil, layer.Refuse("the image's manifest can't be read: %v", err)
	}
	if m.SchemaVersion != 2 || m.Config.Digest.Hex == "" {
		return nil, layer.Refuse("the image has a manifest of version %d: only version 2 is supported", m.SchemaVersion)
	}
	if len(m.Layers) > maxLayers {
		return nil, layer.Refuse("the image has %d layers: at most %d are allowed", len(m.Layers), maxLayers)
	}
	if m.Config.Size > MaxConfig {
		return nil, layer.Refuse("the image's configuration has %d bytes: at most %d are allowed", m.Config.Size, MaxConfig)
	}
	for _, d := range append([]v1.Descriptor{m.Config}, m.Layers...) {
		if d.Digest.Algorithm != "sha256" {
			return nil, layer.Refuse("the image has a digest of type %s: only sha256 is supported", d.Digest.Algorithm)
		}
		if d.Size < 0 || d.Size > maxBlob {
			return nil, layer.Refuse("the image has a blob of %d bytes: at most %d GiB are allowed", d.Size, maxBlob>>30)
		}
		if !d.MediaType.IsDistributable() {
			return nil, layer.Refuse("the image has a layer that registries don't serve (%s)", d.MediaType)
		}
	}
	return m, nil
}

// ParseConfig parses an image's configuration and checks that it matches the manifest.
func ParseConfig(data []byte, m *v1.Manifest) (*v1.ConfigFile, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, layer.Refuse("the image's configuration can't be read: %v", err)
	}
	if len(c.RootFS.DiffIDs) != len(m.Layers) {
		return nil, layer.Refuse(
			"the image has %d layers, but its configuration lists %d: is it a container image?",
			len(m.Layers), len(c.RootFS.DiffIDs))
	}
	for _, d := range c.RootFS.DiffIDs {
		if d.Algorithm != "sha256" {
			return nil, layer.Refuse("the image has a digest of type %s: only sha256 is supported", d.Algorithm)
		}
	}
	if c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != runtime.GOARCH {
		return nil, layer.Refuse("the image is for %s/%s, but this machine is linux/%s",
			c.OS, c.Architecture, runtime.GOARCH)
	}
	return c, nil
}

// Add creates an image from blobs that are in the store (its manifest, configuration and layers) and unpacks its
// layers. The caller holds [Store.Use] until the image has a name or a host. Add calls the function say with its
// progress.
func (s *Store) Add(ctx context.Context, manifest v1.Hash, say func(string)) error {
	data, err := s.ReadBlob(manifest, MaxManifest)
	if err != nil {
		return err
	}
	m, err := ParseManifest(data)
	if err != nil {
		return err
	}
	data, err = s.ReadBlob(m.Config.Digest, MaxConfig)
	if err != nil {
		return err
	}
	c, err := ParseConfig(data, m)
	if err != nil {
		return err
	}
	r := record{
		Manifest: manifest.String(), MediaType: string(mediaType(m)), Config: m.Config.Digest.String(), Created: c.Created,
		Platform: "linux/" + cmp.Or(c.Architecture, runtime.GOARCH),
	}
	for i, l := range m.Layers {
		r.Layers = append(r.Layers, layerRecord{Blob: l.Digest.String(), DiffID: c.RootFS.DiffIDs[i].String()})
	}
	if err := s.unpack(ctx, r, say); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.state.Images[r.Manifest]; !is && len(s.state.Images) >= maxImages {
		return image.Errorf(image.CodeNoSpace, roomAdvice, "the store already has %d images", maxImages)
	}
	s.state.Images[r.Manifest] = r
	if err := s.save(); err != nil {
		return err
	}
	s.settle()
	return nil
}

func mediaType(m *v1.Manifest) types.MediaType {
	return cmp.Or(m.MediaType, types.OCIManifestSchema1)
}

// Complete unpacks layers that an image lost through a power failure or because the store's ids changed.
func (s *Store) Complete(ctx context.Context, digest string) error {
	s.mu.Lock()
	r, is := s.state.Images[digest]
	s.mu.Unlock()
	if !is {
		return NotFound(digest)
	}
	if _, whole := s.names(r); whole {
		return nil
	}
	defer s.Use()()
	if err := s.unpack(ctx, r, func(string) {}); err != nil {
		return err
	}
	s.settle()
	return nil
}

// NotFound returns the error for an image that does not exist.
func NotFound(ref string) error {
	return image.Errorf(image.CodeNotFound, "list them with: capstan image list", "there is no image %s", ref)
}

// Has reports whether the image with this manifest digest exists.
func (s *Store) Has(digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.state.Images[digest]
	return is
}

// Tag gives an image a canonical name. An image that had the name before keeps its other names.
func (s *Store) Tag(name, digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.state.Images[digest]; !is {
		return NotFound(digest)
	}
	if s.state.Names[name] == digest {
		return nil
	}
	s.state.Names[name] = digest
	return s.save()
}

// Untag removes a name or, if ref is a digest or an id, all names of its image. The store then deletes what nobody
// holds.
func (s *Store) Untag(ref string) error {
	err := s.untag(ref)
	if err == nil {
		failpoint.Hit("name removed")
		s.Collect()
	}
	return err
}

func (s *Store) untag(ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest, is := s.local(ref)
	if !is {
		if held, found := s.heldBy(ref); found {
			return image.Errorf(image.CodeInUse,
				"the store deletes it when the host's kubelet removes it, or when the host is deleted",
				"image %s no longer has a name of its own: host %s holds it", ref, held)
		}
		return NotFound(ref)
	}
	if _, named := s.state.Names[ref]; named {
		delete(s.state.Names, ref)
	} else {
		maps.DeleteFunc(s.state.Names, func(_, d string) bool { return d == digest })
	}
	return s.save()
}

// heldBy returns a host that holds an image; the caller holds s.mu.
func (s *Store) heldBy(ref string) (string, bool) {
	for key, h := range s.state.Hosts {
		for name, digest := range h.Names {
			if name == ref || digest == ref || s.state.Images[digest].Config == ref {
				host, _, _ := strings.Cut(key, "/")
				return host, true
			}
		}
	}
	return "", false
}

// local finds an image of the machine's user by a canonical name, a digest or an id. The caller holds s.mu.
func (s *Store) local(ref string) (string, bool) {
	if digest, is := s.state.Names[ref]; is {
		return digest, true
	}
	if _, digest, is := strings.Cut(ref, "@"); is {
		for name, d := range s.state.Names {
			if d == digest && image.Repository(name) == image.Repository(ref) {
				return d, true
			}
		}
		return "", false
	}
	for _, d := range s.state.Names {
		if d == ref || s.state.Images[d].Config == ref {
			return d, true
		}
	}
	return "", false
}

// Find returns an image of the machine's user.
func (s *Store) Find(ref string) (image.Image, error) {
	s.mu.Lock()
	digest, is := s.local(ref)
	s.mu.Unlock()
	if !is {
		return image.Image{}, NotFound(ref)
	}
	return s.Describe(digest)
}

// Describe returns an image with its configuration and the names that the machine's user gave it.
func (s *Store) Describe(digest string) (image.Image, error) {
	s.mu.Lock()
	r, is := s.state.Images[digest]
	img := s.describe(r)
	s.mu.Unlock()
	if !is {
		return image.Image{}, NotFound(digest)
	}
	config, err := v1.NewHash(r.Config)
	if err != nil {
		return image.Image{}, err
	}
	data, err := s.ReadBlob(config, MaxConfig)
	if err != nil {
		return image.Image{}, err
	}
	img.Config = json.RawMessage(data)
	img.Layers, _ = s.names(r)
	img.IDs = s.IDs()
	return img, nil
}

// describe returns an image as lists show it. The caller holds s.mu.
func (s *Store) describe(r record) image.Image {
	img := image.Image{ID: r.Config, Digest: r.Manifest, Created: r.Created.Time, Platform: r.Platform}
	for name, digest := range s.state.Names {
		if digest == r.Manifest {
			img.Names = append(img.Names, name)
		}
	}
	slices.Sort(img.Names)
	for _, h := range s.state.Hosts {
		if slices.Contains(slices.Collect(maps.Values(h.Names)), r.Manifest) {
			img.Hosts++
		}
	}
	var ids []string
	for _, l := range r.Layers {
		ids = append(ids, l.DiffID)
		for _, key := range []string{l.DiffID, chain(ids)} {
			if m, is := s.layers[layerName(s.IDs(), key)]; is && m.Key == key {
				img.Size += m.Bytes
				break
			}
		}
	}
	return img
}

// List returns all images sorted by name, those without a name last.
func (s *Store) List() []image.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]image.Image, 0, len(s.state.Images))
	for _, r := range s.state.Images {
		all = append(all, s.describe(r))
	}
	slices.SortFunc(all, compare)
	return all
}

func compare(a, b image.Image) int {
	if c := cmp.Compare(len(b.Names), len(a.Names)); c != 0 && (len(a.Names) == 0 || len(b.Names) == 0) {
		return c
	}
	return cmp.Or(slices.Compare(a.Names, b.Names), cmp.Compare(a.Digest, b.Digest))
}

// Record returns the digests that an image's manifest consists of, for export.
func (s *Store) Record(digest string) (manifest, config v1.Hash, layers []v1.Hash, mediaType string, err error) {
	s.mu.Lock()
	r, is := s.state.Images[digest]
	s.mu.Unlock()
	if !is {
		return manifest, config, nil, "", NotFound(digest)
	}
	var all []error
	parse := func(text string) v1.Hash {
		h, err := v1.NewHash(text)
		all = append(all, err)
		return h
	}
	manifest, config = parse(r.Manifest), parse(r.Config)
	for _, l := range r.Layers {
		layers = append(layers, parse(l.Blob))
	}
	return manifest, config, layers, r.MediaType, errors.Join(all...)
}
