package seal

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// Names of the files in a ring's directory.
const (
	// ringFile holds the keys.
	ringFile = "keys.json"
	// ConfigFile is the API server's encryption configuration, which contains the first key.
	ConfigFile = "config.yaml"
	// requestFile requests a rotation.
	requestFile = "rotate"
)

// keySize is the length of a key in bytes.
const keySize = 32

// Key encrypts and decrypts values.
type Key struct {
	// Name is a part of each value that the key has encrypted.
	Name string `json:"name"`
	// Secret has 32 bytes.
	Secret []byte `json:"secret"`
	// Made is when the key was made.
	Made time.Time `json:"made"`
}

// Ring holds the keys of a plane and records which resources are encrypted in etcd.
type Ring struct {
	// Keys are ordered newest first. During a rotation there are several keys. When everything is encrypted with the
	// first key, the others are dropped.
	Keys []Key `json:"keys"`
	// Sealed lists the resources that are encrypted in etcd, with any of the keys.
	Sealed []string `json:"sealed"`
	// Remnants is true while etcd's files may still contain data from before the rewrite.
	Remnants bool `json:"remnants,omitempty"`

	dir   string
	now   func() time.Time
	saved bool
}

// Open returns the ring in directory dir. If there is none, it returns a new one that is not saved yet. The parameter
// fresh says that etcd has no data, so there is nothing to rewrite. A nil clock means time.Now.
func Open(dir string, fresh bool, clock func() time.Time) (*Ring, error) {
	if clock == nil {
		clock = time.Now
	}
	ring := &Ring{dir: dir, now: clock}
	data, err := os.ReadFile(filepath.Join(dir, ringFile))
	if errors.Is(err, fs.ErrNotExist) {
		key, err := newKey(clock())
		if err != nil {
			return nil, err
		}
		ring.Keys = []Key{key}
		if fresh {
			ring.Sealed = slices.Clone(Resources)
		}
		return ring, nil
	}
	if err == nil {
		err = json.Unmarshal(data, ring)
	}
	if err == nil {
		err = ring.check()
	}
	ring.saved = true
	if err != nil {
		return nil, fmt.Errorf("reading the keys that encrypt Secrets, %s: %w; restore that file from a copy of the home "+
			"directory: without it, Secrets of this plane can't be read", filepath.Join(dir, ringFile), err)
	}
	return ring, nil
}

// check returns an error if a ring that was read is invalid.
func (r *Ring) check() error {
	if len(r.Keys) == 0 {
		return errors.New("it has no key")
	}
	for _, key := range r.Keys {
		if key.Name == "" || len(key.Secret) != keySize {
			return fmt.Errorf("the key %q is damaged", key.Name)
		}
	}
	return nil
}

// newKey creates a key. Its name is unique, because each value names the key that it needs.
func newKey(now time.Time) (Key, error) {
	random := make([]byte, keySize+4)
	if _, err := rand.Read(random); err != nil {
		return Key{}, fmt.Errorf("making a key for Secrets: %w", err)
	}
	name := fmt.Sprintf("key-%s-%x", now.UTC().Format("20060102"), random[keySize:])
	return Key{Name: name, Secret: random[:keySize], Made: now.UTC().Truncate(time.Second)}, nil
}

// Pending reports whether values in etcd must be rewritten before the API server starts.
func (r *Ring) Pending() bool { return len(r.Keys) > 1 || !slices.Equal(r.Sealed, Resources) }

// Add carries out a request for a rotation. If the request names the first key, Add creates a key, puts it before the
// others, and saves the ring. Add removes the request, and reports whether it created a key.
func (r *Ring) Add() (bool, error) {
	path := filepath.Join(r.dir, requestFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading a request for a new key: %w", err)
	}
	wanted := string(data) == r.Keys[0].Name // if not, an earlier start was killed after it had created the key
	if wanted {
		key, err := newKey(r.now())
		if err != nil {
			return false, err
		}
		r.Keys = slices.Insert(r.Keys, 0, key)
		if err := r.Save(); err != nil {
			return false, err
		}
	}
	if err := os.Remove(path); err != nil {
		return false, fmt.Errorf("removing a request for a new key: %w", err)
	}
	return wanted, nil
}

// Done drops all keys but the first, with which everything is encrypted now.
func (r *Ring) Done() error {
	r.Keys, r.Sealed, r.Remnants = r.Keys[:1], slices.Clone(Resources), true
	return r.Save()
}

// Cleaned records that etcd's files no longer contain older data.
func (r *Ring) Cleaned() error {
	r.Remnants = false
	return r.Save()
}

// Save writes the ring. Once it returns, the file survives a power failure: data encrypted with a new key would be lost
// without it.
func (r *Ring) Save() error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the keys that encrypt Secrets: %w", err)
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the keys that encrypt Secrets: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(r.dir, ringFile), append(data, '\n'), 0o600); err != nil {
		return err
	}
	for _, dir := range []string{r.dir, filepath.Dir(r.dir)} {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	r.saved = true
	return nil
}

// Ensure saves the ring if it is new.
func (r *Ring) Ensure() error {
	if r.saved {
		return nil
	}
	return r.Save()
}

// syncDir syncs the entries of a directory to disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening a directory: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("writing the directory %s: %w", path, err)
	}
	return nil
}

// Request asks the next start of the plane to replace the current key, whose name it returns. dir is the directory of a
// ring; if there is none, the error is fs.ErrNotExist.
func Request(dir string) (replaced string, err error) {
	if _, err := os.Stat(filepath.Join(dir, ringFile)); err != nil {
		return "", fmt.Errorf("looking for the key that encrypts Secrets: %w", err)
	}
	ring, err := Open(dir, false, nil)
	if err != nil {
		return "", err
	}
	name := ring.Keys[0].Name
	return name, atomicfile.Write(filepath.Join(dir, requestFile), []byte(name), 0o600)
}
