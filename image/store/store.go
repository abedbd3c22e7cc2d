//go:build linux

// Package store keeps images on the disk: blobs by their digest, and each layer once, unpacked as overlayfs wants it.
//
//	DIR/lock            held by the one process that writes here
//	DIR/state.json      images, their names, and which host holds what; replaced as a whole
//	DIR/blobs/sha256/   manifests, configurations and packed layers
//	DIR/layers/NAME/    an unpacked layer; hosts see this directory read-only
//	DIR/layers/NAME.owners  who its files belong to, where the store has one id only
//	DIR/meta/NAME.json  what the layer is; a layer without this file was not finished
//	DIR/work/           what is being written, DIR/work/partial what a download has so far
//
// A process that is killed leaves whole blobs, whole layers and the state of before or after; [Open] removes the rest.
// After a loss of power, layers that had not reached the disk are unpacked again from their blobs.
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

// Options say where a store is and what it may hold.
type Options struct {
	// Dir is the store's directory; it is made when missing. Required.
	Dir string
	// HostsDir is the dock's directory of hosts: HOSTSDIR/NAME/images/id says which host of that name it is. What
	// hosts hold that are gone is let go. Without it, hosts are never gone.
	HostsDir string
	// MinFree is how many bytes of the disk stay free; default 256 MiB.
	MinFree uint64
	// Limits bound each image.
	Limits layer.Limits
	// Log is where the store reports; default: nowhere.
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

	// What adds to the store holds busy for reading; the collection of garbage holds it for writing.
	busy sync.RWMutex
	// unpacking is held by the one that unpacks layers.
	unpacking sync.Mutex
	syncing   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	state  state
	layers map[string]meta // by name
}

// ErrLocked says that another process has the store.
var ErrLocked = errors.New("another process has the image store")

// Open opens a store, and brings it into order.
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
	// Files of other users are below, with their mode: nobody else may come here.
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

// Write takes everything.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// Close lets go of the store when what it wrote has reached the disk.
func (s *Store) Close() error {
	s.syncing.Wait()
	return s.lock.Close()
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, parts...)...)
}

// hasAllIDs reports whether this process can give files to every user that a layer names, and hosts of the dock show
// them: it decides as the dock does (dock/inside, newIDs).
func hasAllIDs() bool {
	if os.Geteuid() != 0 {
		return false
	}
	for _, path := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		data, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		// One extent with the ids of images, and those that hosts of a dock get (dock/idrange).
		if !covers(string(data), 0, layer.MaxID) || !covers(string(data), 0x70000000, 0x7fffffff) {
			return false
		}
	}
	return mayChown()
}

// covers reports whether an id map has all ids from first to last in one line. Pure.
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

// mayChown reports whether this process has the capabilities that a dock without a user namespace of its own needs, and
// that to give files away: root in a container can lack them.
func mayChown() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	const need = 1<<unix.CAP_CHOWN | 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&need == need
}

// IDs returns the level of ids that layers are unpacked with.
func (s *Store) IDs() string {
	if s.allIDs {
		return image.AllIDs
	}
	return image.OneID
}

// state is what state.json holds.
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

// host is what a host of the dock holds.
type host struct {
	// Names it has pulled, with the digest of the image, and digests without a name with themselves.
	Names map[string]string `json:"names,omitempty"`
	// Hidden are the names of the machine's user that the host has removed for itself.
	Hidden map[string]bool `json:"hidden,omitempty"`
}

// blob is a packed layer.
type blob struct {
	DiffID string `json:"diffID,omitempty"` // what it was seen to unpack to
	// Origins are the registries that it came from.
	Origins []string `json:"origins,omitempty"`
}

// Version of the format of state.json.
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
		return fmt.Errorf("reading what images there are: %w: remove %s to begin anew", err, s.options.Dir)
	}
	if s.state.Version != stateVersion {
		return fmt.Errorf("%s was written by another version of Capstan: remove %s to begin anew",
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

// save writes the state; the caller holds s.mu. On an error the state in memory is that of the disk again.
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

// full makes an error about a full disk say so.
func full(err error, dir string) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return image.Errorf(image.CodeNoSpace, roomAdvice, "the disk of %s is full: %v", dir, err)
	}
	return err
}

const roomAdvice = "free some space on that disk, or remove images: capstan image list, capstan image remove"

// room returns an error if the disk has less room than must stay free.
func (s *Store) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(s.options.Dir, &st); err != nil {
		return fmt.Errorf("looking how full the disk of images is: %w", err)
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < s.options.MinFree || st.Files > 0 && st.Ffree == 0 {
		return image.Errorf(image.CodeNoSpace, roomAdvice, "the disk of %s is full: %d MiB are free, %d MiB must stay free",
			s.options.Dir, free>>20, s.options.MinFree>>20)
	}
	return nil
}

// Use keeps what is added from being collected until done is called.
func (s *Store) Use() (done func()) {
	s.busy.RLock()
	return sync.OnceFunc(s.busy.RUnlock)
}
