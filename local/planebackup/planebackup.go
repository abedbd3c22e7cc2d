// Package planebackup makes a backup of a management plane, and makes a plane of it, on this computer or another one.
//
// A backup is one file with everything that the plane is: a snapshot of its etcd, its authorities and the key of
// service accounts, the key that encrypts its Secrets, and what the user has chosen. It is not encrypted: whoever has
// it is the plane. Local hosts with their clusters are no part of it, nor images, backups of clusters, and logs.
package planebackup

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/hint"
)

const (
	// format is the number of the present format of backups.
	format = 1
	// manifestName is the first file of a backup, snapshotName the snapshot of etcd.
	manifestName, snapshotName = "manifest.json", "etcd.db"
	// pkiPrefix and keysName are the keys of the plane, choicesName what the user has chosen.
	pkiPrefix, keysName, choicesName = "pki/", "encryption/keys.json", "up.json"
	// mostFiles and mostBytes bound what is read from a backup.
	mostFiles, mostBytes = 100, 8 << 30
)

// Manifest says what a backup is. Add fields, don't rename them.
type Manifest struct {
	// Format is the number of the format.
	Format int `json:"format"`
	// Time is when it was made.
	Time time.Time `json:"time"`
	// Capstan is the version that made it, KubernetesVersion that of the plane.
	Capstan           string `json:"capstan"`
	KubernetesVersion string `json:"kubernetesVersion"`
	// Listen is where other computers reached the plane; empty if they did not.
	Listen string `json:"listen,omitempty"`
	// Revision and Keys were read from an etcd that the snapshot was restored into.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	// Files are all files of the backup but this one.
	Files []File `json:"files"`
}

// File is one file of a backup.
type File struct {
	// Name is its path below the plane's directory, or one of our own.
	Name string `json:"name"`
	// Size is in bytes, SHA256 in hexadecimal digits.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`

	path string // where it is read from
}

// damaged is the error about a backup that can't be used.
func damaged(path, format string, args ...any) error {
	return hint.Errorf("take another backup: nothing was changed", "%s is no whole backup of a plane: %s", path,
		fmt.Sprintf(format, args...))
}
