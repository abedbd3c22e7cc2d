package backup

import (
	"context"
	"errors"
	"time"
)

// File names of a backup in a store.
const (
	snapshotFile = "etcd.db"
	manifestFile = "manifest.json"
)

// Bounds of what is read from a store.
const (
	maxManifest = 64 << 10
	maxBackups  = 1000   // of one cluster: the newest
	maxList     = 10_000 // of all clusters
)

// leftFor is how old what a try has left behind is at least before it is removed: no try takes that long.
const leftFor = 24 * time.Hour

// ErrDamaged says that manifests in a store can't be read.
var ErrDamaged = errors.New("backups are damaged")

// Store keeps backups. What was added is whole or not there. All methods may be called at the same time, also by
// several processes.
type Store interface {
	// Add keeps the snapshot in file.
	Add(ctx context.Context, m Manifest, file string) error
	// List gives the backups of a cluster, or of all clusters if both names are empty, oldest first. None is no error.
	// Those that are damaged are left out, and named by an error that is [ErrDamaged], beside the others: one that can't
	// be read must not hold up what does not need it.
	List(ctx context.Context, namespace, cluster string) ([]Manifest, error)
	// Fetch copies a snapshot to a file that does not exist yet, mode 0600, and checks that it is the one of the manifest.
	Fetch(ctx context.Context, m Manifest, file string) error
	// Remove forgets a backup. One that is gone is no error.
	Remove(ctx context.Context, m Manifest) error
	// Tidy removes what tries for a cluster have left that were killed a day before now, or earlier.
	Tidy(ctx context.Context, namespace, cluster string, now time.Time) error
}
