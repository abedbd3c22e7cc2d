//go:build linux

package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// meta describes an unpacked layer.
type meta struct {
	// Key is the layer's diff id. A layer that depends on those below it has the key of its chain instead.
	Key   string `json:"key"`
	IDs   string `json:"ids"`
	Bytes int64  `json:"bytes"`
	Files int    `json:"files"`
	// Boot identifies the machine's boot in which the layer was unpacked. It is empty once the layer has reached the disk.
	Boot string `json:"boot,omitempty"`
}

// layerName returns the name of a layer's directory. It is short, so that the names of 127 layers fit into one mount.
func layerName(ids, key string) string {
	sum := sha256.Sum256([]byte(ids + " " + key))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
}

// chain returns the key of a layer that depends on those below it.
func chain(diffIDs []string) string {
	key := diffIDs[0]
	for _, d := range diffIDs[1:] {
		sum := sha256.Sum256([]byte(key + " " + d))
		key = "sha256:" + hex.EncodeToString(sum[:])
	}
	return "chain " + key
}

// find returns the name of an unpacked layer; diffIDs is the chain up to and including it.
func (s *Store) find(diffIDs []string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range []string{diffIDs[len(diffIDs)-1], chain(diffIDs)} {
		name := layerName(s.IDs(), key)
		if m, is := s.layers[name]; is && m.Key == key {
			return name, true
		}
	}
	return "", false
}

// names returns the directories of an image's layers, or false if a layer is not unpacked.
func (s *Store) names(r record) ([]string, bool) {
	var names, ids []string
	for _, l := range r.Layers {
		ids = append(ids, l.DiffID)
		name, is := s.find(ids)
		if !is {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// unpack makes sure that all layers of an image are unpacked and match the configuration.
func (s *Store) unpack(ctx context.Context, r record, say func(string)) error {
	s.unpacking.Lock()
	defer s.unpacking.Unlock()
	var ids, parents []string
	left := s.options.Limits.Bytes
	for i, l := range r.Layers {
		ids = append(ids, l.DiffID)
		name, is := s.find(ids)
		if is && s.proved(l) {
			parents = append(parents, s.path("layers", name))
			continue
		}
		say(fmt.Sprintf("unpacking layer %d of %d", i+1, len(r.Layers)))
		bytes, name, err := s.unpackOne(ctx, l, ids, parents, left, is)
		if err != nil {
			return fmt.Errorf("layer %d of %d: %w", i+1, len(r.Layers), err)
		}
		left -= bytes
		parents = append(parents, s.path("layers", name))
	}
	return nil
}

// proved reports whether a packed layer was verified against the configuration. Without that proof an image could name
// a layer that it does not contain.
func (s *Store) proved(l layerRecord) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Blobs[l.Blob].DiffID == l.DiffID
}

// unpackOne unpacks a layer. If the layer is already unpacked, unpackOne only verifies that the blob contains it.
func (s *Store) unpackOne(ctx context.Context, l layerRecord, ids, parents []string, left int64, only bool) (
	int64, string, error,
) {
	blobHash, err := v1.NewHash(l.Blob)
	if err != nil {
		return 0, "", err
	}
	dir, err := os.MkdirTemp(s.path("layers"), ".work-")
	if err != nil {
		return 0, "", fmt.Errorf("unpacking a layer: %w", full(err, s.options.Dir))
	}
	defer removeAll(dir)
	stream, err := s.openLayer(blobHash)
	if err != nil {
		return 0, "", err
	}
	defer stream.Close()
	limits := s.options.Limits
	limits.Bytes = left
	result, err := layer.Unpack(ctx, stream, dir, layer.Options{
		Parents: parents, AllIDs: s.allIDs, Limits: limits, Room: s.room,
	})
	if layer.IsRefused(err) {
		return 0, "", errors.Join(s.verify(blobHash), err) // the disk may be to blame
	}
	if err != nil {
		return 0, "", full(err, s.options.Dir)
	}
	packed, diff := stream.sums()
	if packed != blobHash.Hex {
		return 0, "", s.damaged(blobHash)
	}
	if want := strings.TrimPrefix(l.DiffID, "sha256:"); diff != want {
		return 0, "", layer.Refuse("blob %s unpacks to sha256:%s, but the image's configuration says sha256:%s",
			blobHash, diff, want)
	}
	s.mu.Lock()
	b := s.state.Blobs[l.Blob]
	b.DiffID = l.DiffID
	s.state.Blobs[l.Blob] = b
	s.mu.Unlock()
	if only {
		name, _ := s.find(ids)
		return result.Bytes, name, nil
	}
	name, err := s.publish(dir, ids, result)
	return result.Bytes, name, err
}

// publish moves an unpacked layer to its final place.
func (s *Store) publish(dir string, ids []string, r layer.Result) (string, error) {
	m := meta{Key: ids[len(ids)-1], IDs: s.IDs(), Bytes: r.Bytes, Files: r.Entries, Boot: s.boot}
	if r.Depends {
		m.Key = chain(ids)
	}
	name := layerName(m.IDs, m.Key)
	failpoint.Hit("layer unpacked")
	if err := removeAll(s.path("layers", name)); err != nil { // no file in meta: a killed process left this directory
		return "", err
	}
	if err := os.Rename(dir, s.path("layers", name)); err != nil {
		return "", fmt.Errorf("keeping a layer: %w", err)
	}
	failpoint.Hit("layer in place")
	if len(r.Owners) > 0 {
		if err := writeOwners(s.path("layers", name+".owners"), r.Owners); err != nil {
			return "", fmt.Errorf("keeping the owners of a layer: %w", full(err, s.options.Dir))
		}
	}
	if err := s.writeMeta(name, m); err != nil {
		return "", err
	}
	failpoint.Hit("layer kept")
	s.mu.Lock()
	s.layers[name] = m
	s.mu.Unlock()
	return name, nil
}

func writeOwners(path string, owners []layer.Owner) error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, o := range owners {
		if err := enc.Encode(o); err != nil {
			return err
		}
	}
	return atomicfile.Write(path, lines.Bytes(), 0o644)
}

func (s *Store) writeMeta(name string, m meta) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = atomicfile.Write(s.path("meta", name+".json"), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping a layer: %w", full(err, s.options.Dir))
	}
	return nil
}

// settle syncs added layers to the disk and records that. Until then, a power failure can lose the layers, but not the
// image.
func (s *Store) settle() {
	s.syncing.Go(func() {
		s.mu.Lock()
		pending := map[string]meta{}
		for name, m := range s.layers {
			if m.Boot != "" {
				pending[name] = m
			}
		}
		s.mu.Unlock()
		if len(pending) == 0 {
			return
		}
		dir, err := os.Open(s.options.Dir)
		if err != nil {
			return
		}
		defer dir.Close()
		if unix.Syncfs(int(dir.Fd())) != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, m := range pending {
			if s.layers[name] != m {
				continue // removed meanwhile
			}
			m.Boot = ""
			if s.writeMeta(name, m) == nil {
				s.layers[name] = m
			}
		}
	})
}

// removeAll removes a tree, even where directories deny their owner access.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		os.Chmod(dir, 0o700)
		if root, err = os.OpenRoot(dir); err != nil {
			return err
		}
	}
	allow(root, ".")
	root.Close()
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	return nil
}

// allow makes directories accessible to their owner. It ignores errors: removing the directories reports them.
func allow(root *os.Root, dir string) {
	root.Chmod(dir, 0o700)
	f, err := root.Open(dir)
	if err != nil {
		return
	}
	entries, _ := f.ReadDir(-1)
	f.Close()
	for _, e := range entries {
		if e.IsDir() {
			allow(root, dir+"/"+e.Name())
		}
	}
}
