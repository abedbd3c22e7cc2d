//go:build linux

// Package store keeps images on the disk: blobs by their digest, and each layer once, unpacked in the form that
// overlayfs needs.
//
//	DIR/lock            held by the one process that writes here
//	DIR/state.json      images, their names, and which host holds what; replaced as a whole
//	DIR/blobs/sha256/   manifests, configurations and packed layers
//	DIR/layers/NAME/    an unpacked layer; hosts see this directory read-only
//	DIR/layers/NAME.owners  the owners of its files, if the store has only one id
//	DIR/meta/NAME.json  describes the layer; a layer without this file is incomplete
//	DIR/work/           files being written; DIR/work/partial holds unfinished downloads
//
// A killed process leaves complete blobs, complete layers, and either the old or the new state; [Open] removes the
// rest. After a power failure, layers that had not reached the disk are unpacked again from their blobs.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// Options configure a store.
type Options struct {
	// Dir is the store's directory; Open creates it if missing. Required.
	Dir string
	// HostsDir is the dock's directory of hosts: HOSTSDIR/NAME/images/id identifies the host of that name. If a host no
	// longer exists, it no longer holds any images. Without HostsDir, the store assumes that all hosts exist.
	HostsDir string
	// MinFree is the number of bytes that stay free on the disk; default 256 MiB.
	MinFree uint64
	// Limits bound each image.
	Limits layer.Limits
	// Log receives the store's messages; default: none.
	Log *log.Logger
}

// Bounds of an image.
const (
	maxLayers   = 127
	MaxManifest = 4 << 20
	MaxConfig   = 4 << 20
	maxBlob     = 16 << 30
	maxImages   = 10_000
)

// Store is an open store. It is safe for concurrent use.
type Store struct {
	options Options
	lock    *os.File
	allIDs  bool
	boot    string

	// Whoever adds to the store holds the lock busy for reading; the garbage collector holds it for writing.
	busy sync.RWMutex
	// Whoever unpacks layers holds the lock unpacking.
	unpacking sync.Mutex
	syncing   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	state  state
	layers map[string]meta // by name
}

// ErrLocked reports that another process uses the store.
var ErrLocked = errors.New("another process uses the image store")

// Open opens a store and cleans up what a killed process left.
func Open(o Options) (*Store, error) {
	if o.MinFree == 0 {
		o.MinFree = 256 << 20
	}
	o.Limits = o.Limits.Default()
	if o.Log == nil {
		o.Log = log.New(os.Stderr, "", 0)
		o.Log.SetOutput(discard{})
	}
	s := &Store{options: o, allIDs: hasAllIDs()}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the image store: %w", err)
	}
	// Unpacked files belong to other users and keep the image's modes, so nobody but the dock's user may enter here.
	if err := os.Chmod(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the image store: %w", err)
	}
	lock, err := os.OpenFile(s.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the image store: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, o.Dir)
		}
		return nil, fmt.Errorf("locking the image store: %w", err)
	}
	s.lock = lock
	if err := s.recover(); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

type discard struct{}

// Write discards p.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Close syncs the store to the disk and releases it.
func (s *Store) Close() error {
	s.syncing.Wait()
	return s.lock.Close()
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, parts...)...)
}

// hasAllIDs reports whether this process can give files to every user that a layer names, and whether the dock maps
// those users into its hosts. It decides like the dock (dock/inside, newIDs).
func hasAllIDs() bool {
	if os.Geteuid() != 0 {
		return false
	}
	for _, path := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		data, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		// One extent must cover the ids of images, and another one the ids of the dock's hosts (dock/idrange).
		if !covers(string(data), 0, layer.MaxID) || !covers(string(data), 0x70000000, 0x7fffffff) {
			return false
		}
	}
	return mayChown()
}

// covers reports whether one line of an id map covers all ids from first to last. Pure.
func covers(mapping string, first, last int) bool {
	for line := range strings.Lines(mapping) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		begin, err1 := strconv.Atoi(fields[0])
		count, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && begin <= first && begin+count > last {
			return true
		}
	}
	return false
}

// mayChown reports whether this process has the capability to change owners, and the capabilities that a dock without
// its own user namespace needs. Root in a container may lack them.
func mayChown() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	const need = 1<<unix.CAP_CHOWN | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&need == need
}

// IDs returns which ids layers are unpacked with: see [image.Image.IDs].
func (s *Store) IDs() string {
	if s.allIDs {
		return image.AllIDs
	}
	return image.OneID
}

// state is the content of state.json.
type state struct {
	Version int `json:"version"`
	// Images by the digest of their manifest.
	Images map[string]record `json:"images"`
	// Names that the machine's user has given, with the digest of the image.
	Names map[string]string `json:"names"`
	// Hosts by NAME/ID.
	Hosts map[string]host `json:"hosts"`
	// Blobs that are packed layers.
	Blobs map[string]blob `json:"blobs"`
}

// record is an image.
type record struct {
	Manifest  string        `json:"manifest"`
	MediaType string        `json:"mediaType"`
	Config    string        `json:"config"`
	Layers    []layerRecord `json:"layers"`
	Created   v1.Time       `json:"created"`
	Platform  string        `json:"platform"`
}

type layerRecord struct {
	Blob   string `json:"blob"`
	DiffID string `json:"diffID"`
}

// host records what a host of the dock holds.
type host struct {
	// Names that the host pulled, with the digest of the image; a digest without a name maps to itself.
	Names map[string]string `json:"names,omitempty"`
	// Hidden holds the user's names that the host removed for itself.
	Hidden map[string]bool `json:"hidden,omitempty"`
}

// blob is a packed layer.
type blob struct {
	DiffID string `json:"diffID,omitempty"` // the diff id that unpacking this blob has produced
	// Origins are the registries that served it.
	Origins []string `json:"origins,omitempty"`
}

// stateVersion is the version of the format of state.json.
const stateVersion = 1

// load reads state.json.
func (s *Store) load() error {
	s.state = state{Version: stateVersion}
	data, err := os.ReadFile(s.path("state.json"))
	if err == nil {
		err = json.Unmarshal(data, &s.state)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("listing images: %w: remove %s to start over", err, s.options.Dir)
	}
	if s.state.Version != stateVersion {
		return fmt.Errorf("%s was written by another version of Capstan: remove %s to start over",
			s.path("state.json"), s.options.Dir)
	}
	if s.state.Images == nil {
		s.state.Images = map[string]record{}
	}
	if s.state.Names == nil {
		s.state.Names = map[string]string{}
	}
	if s.state.Hosts == nil {
		s.state.Hosts = map[string]host{}
	}
	if s.state.Blobs == nil {
		s.state.Blobs = map[string]blob{}
	}
	return nil
}

// save writes the state; the caller holds s.mu. On an error, save restores the state in memory from the disk.
func (s *Store) save() error {
	data, err := json.Marshal(s.state)
	if err == nil {
		err = atomicfile.Write(s.path("state.json"), data, 0o600)
	}
	if err == nil {
		failpoint.Hit("image recorded")
		return nil
	}
	return errors.Join(full(err, s.options.Dir), s.load())
}

// full explains an error caused by a full disk.
func full(err error, dir string) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return image.Errorf(image.CodeNoSpace, roomAdvice, "the disk of %s is full: %v", dir, err)
	}
	return err
}

const roomAdvice = "free some space on that disk, or remove images: capstan image list, capstan image remove"

// room returns an error if less space is free on the disk than must stay free.
func (s *Store) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.options.Dir, &st); err != nil {
		return fmt.Errorf("reading the free space on the disk with the images: %w", err)
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < s.options.MinFree || st.Files > 0 && st.Ffree == 0 {
		return image.Errorf(image.CodeNoSpace, roomAdvice, "the disk of %s is full: %d MiB are free, %d MiB must stay free",
			s.options.Dir, free>>20, s.options.MinFree>>20)
	}
	return nil
}

// Use protects what is added from the garbage collector until the caller calls done.
func (s *Store) Use() (done func()) {
	s.busy.RLock()
	return sync.OnceFunc(s.busy.RUnlock)
}
