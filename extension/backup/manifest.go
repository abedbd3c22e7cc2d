package backup

import (
	"fmt"
	"strings"
	"time"
)

// Reasons of backups. [UpgradeReason] returns the reason for an upgrade.
const (
	ReasonManual = "manual"
	ReasonDelete = "delete"
)

// UpgradeReason returns the reason of a backup before an upgrade.
func UpgradeReason(from, to string) string { return "upgrade " + from + " to " + to }

// Manifest describes one backup. It is stored next to the snapshot as JSON: add fields, but do not rename them.
type Manifest struct {
	// Name is unique within the cluster and sorts by time, for example 20261121T042600Z-upgrade.
	Name string `json:"name"`
	// Namespace, Cluster and UID identify the cluster. A recreated cluster of the same name has another UID.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	UID       string `json:"uid"`
	// Reason says why the backup was taken: manual, delete, or "upgrade FROM to TO".
	Reason string `json:"reason"`
	// Time is when the backup began.
	Time time.Time `json:"time"`
	// KubernetesVersion is the version of the cluster's API server, EtcdVersion that of the member that sent the
	// snapshot.
	KubernetesVersion string `json:"kubernetesVersion"`
	EtcdVersion       string `json:"etcdVersion"`
	// Revision, Keys and Hash were read from an etcd restored from the snapshot. Hash is etcd's hash of all keys at
	// Revision.
	Revision int64  `json:"revision"`
	Keys     int64  `json:"keys"`
	Hash     uint32 `json:"hash"`
	// ComparedWithCluster reports whether the cluster's own hash at Revision was compared and is the same. It is false
	// if the cluster could not be compared, for example because it had compacted its history in the meantime.
	ComparedWithCluster bool `json:"comparedWithCluster"`
	// Size is the size of the snapshot in bytes, SHA256 its checksum in hexadecimal.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Authorities are the SHA-256 fingerprints of the cluster's certificate authorities by purpose (ca, etcd, proxy,
	// sa). A snapshot works only with these.
	Authorities map[string]string `json:"authorities"`
}

// nameOf returns the name of a backup.
func nameOf(at time.Time, reason string) string {
	kind, _, _ := strings.Cut(reason, " ")
	return at.UTC().Format(nameTime) + "-" + kind
}

// nameTime is the time format at the start of backup names.
const nameTime = "20060102T150405Z"

// timeOf parses the start time in the name of a backup.
func timeOf(name string) (time.Time, error) {
	text, _, _ := strings.Cut(name, "-")
	return time.Parse(nameTime, text)
}

// checkName rejects names that would escape a backup's directory. Names come from manifests and command lines.
func checkName(parts ...string) error {
	for _, part := range parts {
		if part == "" || part[0] == '.' || strings.ContainsAny(part, "/\\\x00") {
			return fmt.Errorf("%q can't be part of the name of a backup", part)
		}
	}
	return nil
}

// Matches returns an error if a backup does not fit the certificate authorities of a cluster.
func (m *Manifest) Matches(authorities map[string]string) error {
	for purpose, fingerprint := range m.Authorities {
		if got := authorities[purpose]; got != fingerprint {
			return fmt.Errorf("backup %s was taken when the cluster had another certificate authority or key %q: restore the "+
				"Secret %s-%s of that time first",
				m.Name, purpose, m.Cluster, purpose)
		}
	}
	return nil
}
