package backup

import (
	"fmt"
	"strings"
	"time"
)

// Reasons of backups; that of an upgrade is made by [UpgradeReason].
const (
	ReasonManual = "manual"
	ReasonDelete = "delete"
)

// UpgradeReason is the reason of a backup before an upgrade.
func UpgradeReason(from, to string) string { return "upgrade " + from + " to " + to }

// Manifest describes one backup. It is kept beside the snapshot as JSON: add fields, don't rename them.
type Manifest struct {
	// Name is unique for the cluster and sorts by time, for example 20261121T042600Z-upgrade.
	Name string `json:"name"`
	// Namespace, Cluster and UID say whose etcd it is. A cluster that has the name of one before it has another UID.
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	UID       string `json:"uid"`
	// Reason is why it was taken: manual, delete, or "upgrade FROM to TO".
	Reason string `json:"reason"`
	// Time is when it was begun.
	Time time.Time `json:"time"`
	// KubernetesVersion is that of the cluster's API server, EtcdVersion that of the member that gave the snapshot.
	KubernetesVersion string `json:"kubernetesVersion"`
	EtcdVersion       string `json:"etcdVersion"`
	// Revision, Keys and Hash were read from an etcd that the snapshot was restored into. Hash is etcd's own of all keys
	// at Revision.
	Revision int64  `json:"revision"`
	Keys     int64  `json:"keys"`
	Hash     uint32 `json:"hash"`
	// ComparedWithCluster tells that the cluster's own hash at Revision was the same. It is false if the cluster had
	// compacted its history meanwhile, which makes the two incomparable.
	ComparedWithCluster bool `json:"comparedWithCluster"`
	// Size of the snapshot in bytes, and its SHA-256 in hexadecimal digits.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Authorities are SHA-256 fingerprints of the cluster's authorities by purpose (ca, etcd, proxy, sa). A snapshot works
	// only with these.
	Authorities map[string]string `json:"authorities"`
}

// nameOf makes the name of a backup.
func nameOf(at time.Time, reason string) string {
	kind, _, _ := strings.Cut(reason, " ")
	return at.UTC().Format(nameTime) + "-" + kind
}

// nameTime is how names of backups begin.
const nameTime = "20060102T150405Z"

// timeOf reads when a backup was begun from its name.
func timeOf(name string) (time.Time, error) {
	text, _, _ := strings.Cut(name, "-")
	return time.Parse(nameTime, text)
}

// checkName refuses what would leave the place of a backup: names come from manifests and command lines.
func checkName(parts ...string) error {
	for _, part := range parts {
		if part == "" || part[0] == '.' || strings.ContainsAny(part, "/\\\x00") {
			return fmt.Errorf("%q can't be part of the name of a backup", part)
		}
	}
	return nil
}

// Matches tells why a backup does not fit the authorities of a cluster; nil if it does.
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
