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

// Limits on what is read from a store.
const (
	maxManifest = 64 << 10
	maxBackups  = 1000   // the newest ones of one cluster
	maxList     = 10_000 // of all clusters
)

// leftFor is the minimum age at which the remains of an attempt are removed. No attempt takes that long.
const leftFor = 24 * time.Hour

// ErrDamaged reports unreadable manifests in a store.
var ErrDamaged = errors.New("backups are damaged")

// Store stores backups. A backup is added completely or not at all. All methods may be called concurrently, also by
// several processes.
type Store interface {
	// Add stores the snapshot in file.
	Add(ctx context.Context, m Manifest, file string) error
	// List returns the backups of a cluster, or of all clusters if both names are empty, oldest first. An empty result is
	// not an error. List leaves out damaged backups. If there are any, it returns the others together with an error that
	// names the damaged ones and is [ErrDamaged]. A damaged backup thus blocks only what needs it.
	List(ctx context.Context, namespace, cluster string) ([]Manifest, error)
	// Fetch copies a snapshot to a new file of mode 0600 and checks that it matches the manifest.
	Fetch(ctx context.Context, m Manifest, file string) error
	// Remove removes a backup. It succeeds if there is none.
	Remove(ctx context.Context, m Manifest) error
	// Tidy removes what attempts for a cluster left behind if they were killed at least a day before now.
	Tidy(ctx context.Context, namespace, cluster string, now time.Time) error
}
