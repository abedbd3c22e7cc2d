package backup

import "context"

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

// Store keeps backups. What was added is whole or not there. All methods may be called at the same time, also by several processes.
type Store interface {
	// Add keeps the snapshot in file.
	Add(ctx context.Context, m Manifest, file string) error
	// List gives the backups of a cluster, or of all clusters if both names are empty, oldest first. None is no error.
	List(ctx context.Context, namespace, cluster string) ([]Manifest, error)
	// Fetch copies a snapshot to a file that does not exist yet, mode 0600, and checks that it is the one of the manifest.
	Fetch(ctx context.Context, m Manifest, file string) error
	// Remove forgets a backup. One that is gone is no error.
	Remove(ctx context.Context, m Manifest) error
}
