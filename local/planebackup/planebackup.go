// Package planebackup backs up a management plane, and restores it on this computer or another one.
//
// A backup is one file with the plane's whole state: a snapshot of its etcd, its certificate authorities and service
// account key, the key that encrypts its Secrets, and the user's choices. It is not encrypted: whoever has it controls
// the plane. It does not contain local hosts with their clusters, images, backups of clusters, or logs.
package planebackup

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/hint"
)

const (
	// format is the number of the current backup format.
	format = 1
	// manifestName is the first file of a backup; snapshotName is the snapshot of etcd.
	manifestName, snapshotName = "manifest.json", "etcd.db"
	// pkiPrefix and keysName are the plane's keys; choicesName is the user's choices.
	pkiPrefix, keysName, choicesName = "pki/", "encryption/keys.json", "up.json"
	// mostFiles and mostBytes bound what is read from a backup.
	mostFiles, mostBytes = 100, 8 << 30
)

// Manifest describes a backup. Add fields, but don't rename them.
type Manifest struct {
	// Format is the number of the format.
	Format int `json:"format"`
	// Time is when the backup was made.
	Time time.Time `json:"time"`
	// Capstan is the version of Capstan that made the backup, KubernetesVersion the Kubernetes version of the plane.
	Capstan           string `json:"capstan"`
	KubernetesVersion string `json:"kubernetesVersion"`
	// Listen is where other computers reached the plane; empty if they did not.
	Listen string `json:"listen,omitempty"`
	// Revision and Keys come from an etcd that the snapshot was restored into as a test.
	Revision int64 `json:"revision"`
	Keys     int64 `json:"keys"`
	// Files lists all files of the backup except the manifest.
	Files []File `json:"files"`
}

// File is one file of a backup.
type File struct {
	// Name is its path below the plane's directory, or a name that only backups use.
	Name string `json:"name"`
	// Size is in bytes; SHA256 is in hex.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`

	path string // the source file
}

// damaged returns the error for a backup that can't be used.
func damaged(path, format string, args ...any) error {
	return hint.Errorf("use another backup; nothing was changed", "%s is not a complete backup of a plane: %s", path,
		fmt.Sprintf(format, args...))
}
