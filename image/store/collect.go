//go:build linux

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/failpoint"
)

// maxPartial is how long a partial download is kept for another attempt.
const maxPartial = 7 * 24 * time.Hour

// recover cleans up after a killed process: it removes what is incomplete.
func (s *Store) recover() error {
	for _, dir := range []string{"blobs/sha256", "layers", "meta", "work/partial"} {
		if err := os.MkdirAll(s.path(dir), 0o700); err != nil {
			return fmt.Errorf("making the image store: %w", full(err, s.options.Dir))
		}
	}
	// Hosts enter this directory; the mode of DIR excludes everybody else.
	if err := os.Chmod(s.path("layers"), 0o755); err != nil {
		return fmt.Errorf("making the image store: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("reading the machine's boot id: %w", err)
	}
	s.boot = strings.TrimSpace(string(boot))
	if err := s.load(); err != nil {
		return err
	}
	halves, err := filepath.Glob(s.path("work", "blob-*"))
	if err != nil {
		return err
	}
	for _, half := range halves {
		if err := os.Remove(half); err != nil {
			return fmt.Errorf("removing unfinished work: %w", err)
		}
	}
	if err := s.readLayers(); err != nil {
		return err
	}
	s.Collect()
	return nil
}

// readLayers loads the complete layers and removes all others.
func (s *Store) readLayers() error {
	s.layers = map[string]meta{}
	metas, err := os.ReadDir(s.path("meta"))
	if err != nil {
		return fmt.Errorf("listing layers: %w", err)
	}
	for _, e := range metas {
		name, is := strings.CutSuffix(e.Name(), ".json")
		var m meta
		data, err := os.ReadFile(s.path("meta", e.Name()))
		if is && err == nil {
			err = json.Unmarshal(data, &m)
		}
		whole := is && err == nil && name == layerName(m.IDs, m.Key) && (m.Boot == "" || m.Boot == s.boot)
		if whole {
			if _, err := os.Lstat(s.path("layers", name)); err == nil {
				s.layers[name] = m
				continue
			}
		}
		if err := os.Remove(s.path("meta", e.Name())); err != nil {
			return fmt.Errorf("removing unfinished work: %w", err)
		}
	}
	dirs, err := os.ReadDir(s.path("layers"))
	if err != nil {
		return fmt.Errorf("listing layers: %w", err)
	}
	for _, e := range dirs {
		if _, whole := s.layers[strings.TrimSuffix(e.Name(), ".owners")]; whole {
			continue
		}
		if err := removeAll(s.path("layers", e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Collect removes everything that neither a name nor a host holds. While something is being added, Collect does
// nothing; the next call or start catches up.
func (s *Store) Collect() {
	if !s.busy.TryLock() {
		return
	}
	defer s.busy.Unlock()
	if err := s.collect(); err != nil {
		s.options.Log.Printf("removing images that nothing uses: %v", err)
	}
}

func (s *Store) collect() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for key := range s.state.Hosts {
		if s.gone(key) {
			delete(s.state.Hosts, key)
			changed = true
		}
	}
	used := map[string]bool{}
	for _, digest := range s.state.Names {
		used[digest] = true
	}
	for _, h := range s.state.Hosts {
		for _, digest := range h.Names {
			used[digest] = true
		}
	}
	layers, blobs := map[string]bool{}, map[string]bool{}
	for digest, r := range s.state.Images {
		if !used[digest] {
			delete(s.state.Images, digest)
			changed = true
			continue
		}
		s.mark(r, layers, blobs)
	}
	before := len(s.state.Blobs)
	maps.DeleteFunc(s.state.Blobs, func(b string, _ blob) bool { return !blobs[b] })
	if changed || before != len(s.state.Blobs) {
		if err := s.save(); err != nil {
			return err
		}
	}
	if changed {
		failpoint.Hit("garbage found")
	}
	return errors.Join(s.sweepLayers(layers), s.sweepBlobs(blobs), s.sweepPartial())
}

// mark adds the layers and blobs that an image needs. The caller holds s.mu.
func (s *Store) mark(r record, layers, blobs map[string]bool) {
	blobs[r.Manifest], blobs[r.Config] = true, true
	var ids []string
	for _, l := range r.Layers {
		blobs[l.Blob] = true
		ids = append(ids, l.DiffID)
		layers[layerName(s.IDs(), l.DiffID)] = true
		layers[layerName(s.IDs(), chain(ids))] = true
	}
}

func (s *Store) sweepLayers(used map[string]bool) error {
	var all []error
	for name := range s.layers {
		if used[name] {
			continue
		}
		// First remove the file that marks the layer as complete: an incomplete layer must never look complete.
		if err := os.Remove(s.path("meta", name+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = append(all, err)
			continue
		}
		delete(s.layers, name)
		failpoint.Hit("layer forgotten")
		all = append(all, removeAll(s.path("layers", name)), removeAll(s.path("layers", name+".owners")))
	}
	return errors.Join(all...)
}

func (s *Store) sweepBlobs(used map[string]bool) error {
	entries, err := os.ReadDir(s.path("blobs", "sha256"))
	all := []error{err}
	for _, e := range entries {
		if !used["sha256:"+e.Name()] {
			all = append(all, os.Remove(s.path("blobs", "sha256", e.Name())))
		}
	}
	return errors.Join(all...)
}

func (s *Store) sweepPartial() error {
	entries, err := os.ReadDir(s.path("work", "partial"))
	all := []error{err}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > maxPartial {
			all = append(all, os.Remove(s.path("work", "partial", e.Name())))
		}
	}
	return errors.Join(all...)
}
