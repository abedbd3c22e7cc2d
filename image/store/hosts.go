//go:build linux

package store

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/image"
)

// maxHeld bounds the images that one host holds.
const maxHeld = 1000

// Host identifies a host of the dock. A later host of the same name has another ID.
type Host struct{ Name, ID string }

var hostKey = regexp.MustCompile(`^[a-z0-9][-a-z0-9]{0,62}/[A-Za-z0-9]{8,64}$`)

func (h Host) key() string { return h.Name + "/" + h.ID }

// Valid reports whether the name and ID are well-formed.
func (h Host) Valid() bool { return hostKey.MatchString(h.key()) }

// visible finds an image that a host may see: one that the machine's user loaded, unless the host removed it, or one
// that the host itself pulled. The caller holds s.mu.
func (s *Store) visible(h Host, ref string) (string, bool) {
	held := s.state.Hosts[h.key()]
	if digest, is := held.Names[ref]; is {
		return digest, true
	}
	for name, digest := range held.Names {
		if digest == ref || s.state.Images[digest].Config == ref || image.Repository(name)+"@"+digest == ref {
			return digest, true
		}
	}
	if held.Hidden[ref] {
		return "", false
	}
	digest, is := s.local(ref)
	if is && len(s.shown(held, digest)) == 0 {
		return "", false
	}
	return digest, is
}

// shown returns the user's names for an image, except those that the host removed. The caller holds s.mu.
func (s *Store) shown(h host, digest string) []string {
	var names []string
	for name, d := range s.state.Names {
		if d == digest && !h.Hidden[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// HostFind returns an image that a host may see, ready to use, and makes the host hold it: the image stays until the
// host removes it, even if the machine's user removes it.
func (s *Store) HostFind(ctx context.Context, h Host, ref string) (image.Image, error) {
	s.mu.Lock()
	digest, is := s.visible(h, ref)
	s.mu.Unlock()
	if !is {
		return image.Image{}, image.Errorf(image.CodeNotFound, "", "image %s is not on host %s", ref, h.Name)
	}
	if err := s.hold(h, digest, digest); err != nil {
		return image.Image{}, err
	}
	if err := s.Complete(ctx, digest); err != nil {
		return image.Image{}, err
	}
	img, err := s.Describe(digest)
	if err != nil {
		return image.Image{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forHost(h, &img)
	return img, nil
}

// forHost replaces an image's names with those that a host knows. The caller holds s.mu.
func (s *Store) forHost(h Host, img *image.Image) {
	held := s.state.Hosts[h.key()]
	img.Hosts = 0
	img.Names, img.Digests = s.shown(held, img.Digest), nil
	img.Pinned = len(img.Names) > 0
	for name, digest := range held.Names {
		switch {
		case digest != img.Digest || image.IsID(name):
		case strings.Contains(name, "@"):
			img.Digests = append(img.Digests, name)
		case !slices.Contains(img.Names, name):
			img.Names = append(img.Names, name)
		}
	}
	for _, name := range img.Names {
		digest := image.Repository(name) + "@" + img.Digest
		if !slices.Contains(img.Digests, digest) {
			img.Digests = append(img.Digests, digest)
		}
	}
	slices.Sort(img.Names)
	slices.Sort(img.Digests)
}

// Hold records that a host pulled an image by a canonical name; from now on the host may see it.
func (s *Store) Hold(h Host, name, digest string) error { return s.hold(h, name, digest) }

func (s *Store) hold(h Host, name, digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, is := s.state.Images[digest]; !is {
		return NotFound(digest)
	}
	old := s.state.Hosts[h.key()]
	if old.Names[name] == digest && !old.Hidden[name] {
		return nil
	}
	if len(old.Names) >= maxHeld {
		return image.Errorf(image.CodeBusy, "remove images that no container needs",
			"host %s already holds %d images", h.Name, len(old.Names))
	}
	held := host{Names: maps.Clone(old.Names), Hidden: maps.Clone(old.Hidden)}
	if held.Names == nil {
		held.Names = map[string]string{}
	}
	held.Names[name] = digest
	delete(held.Hidden, name)
	s.state.Hosts[h.key()] = held
	return s.save()
}

// Unhide makes an image of the machine's user visible again to a host that removed it, and reports whether there is
// such an image.
func (s *Store) Unhide(h Host, name string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest, is := s.local(name)
	if !is {
		return "", false, nil
	}
	old := s.state.Hosts[h.key()]
	if _, pulled := old.Names[name]; !pulled && len(s.shown(old, digest)) > 0 && !old.Hidden[name] {
		return digest, true, nil
	}
	held := host{Names: maps.Clone(old.Names), Hidden: maps.Clone(old.Hidden)}
	delete(held.Names, name) // pulled before the machine's user loaded it
	for known, d := range s.state.Names {
		if known == name || d == digest && strings.Contains(name, "@") {
			delete(held.Hidden, known)
		}
	}
	s.state.Hosts[h.key()] = held
	return digest, true, s.save()
}

// HostList returns the images that a host may see.
func (s *Store) HostList(h Host) []image.Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.state.Hosts[h.key()]
	all := []image.Image{}
	for digest, r := range s.state.Images {
		if len(s.shown(held, digest)) == 0 && !slices.Contains(slices.Collect(maps.Values(held.Names)), digest) {
			continue
		}
		img := s.describe(r)
		s.forHost(h, &img)
		all = append(all, img)
	}
	slices.SortFunc(all, compare)
	return all
}

// HostRemove removes an image for one host. Other hosts and the machine's user keep theirs. Removing an image that the
// host does not see is not an error.
func (s *Store) HostRemove(h Host, ref string) error {
	err := s.hostRemove(h, ref)
	if err == nil {
		s.Collect()
	}
	return err
}

func (s *Store) hostRemove(h Host, ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest, is := s.visible(h, ref)
	if !is {
		return nil
	}
	old := s.state.Hosts[h.key()]
	held := host{Names: maps.Clone(old.Names), Hidden: maps.Clone(old.Hidden)}
	if held.Hidden == nil {
		held.Hidden = map[string]bool{}
	}
	maps.DeleteFunc(held.Names, func(_, d string) bool { return d == digest })
	for _, name := range s.shown(old, digest) {
		held.Hidden[name] = true
	}
	s.state.Hosts[h.key()] = held
	return s.save()
}

// FS returns the store's disk usage.
func (s *Store) FS() image.FS {
	fs := image.FS{Path: image.LayersPath}
	s.mu.Lock()
	for _, m := range s.layers {
		fs.Bytes += uint64(m.Bytes)
		fs.Inodes += uint64(m.Files)
	}
	blobs := map[string]bool{}
	for _, r := range s.state.Images {
		for _, l := range r.Layers {
			blobs[l.Blob] = true
		}
	}
	s.mu.Unlock()
	for b := range blobs {
		if info, err := os.Lstat(s.path("blobs", "sha256", strings.TrimPrefix(b, "sha256:"))); err == nil {
			fs.Bytes += uint64(info.Size())
			fs.Inodes++
		}
	}
	var st unix.Statfs_t
	if unix.Statfs(s.options.Dir, &st) == nil {
		fs.Free = st.Bavail * uint64(st.Bsize)
	}
	return fs
}

// gone reports whether a host that holds images no longer exists.
func (s *Store) gone(key string) bool {
	if s.options.HostsDir == "" {
		return false
	}
	name, id, _ := strings.Cut(key, "/")
	have, err := os.ReadFile(filepath.Join(s.options.HostsDir, name, "images", "id"))
	return os.IsNotExist(err) || err == nil && strings.TrimSpace(string(have)) != id
}
