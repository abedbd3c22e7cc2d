package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/discovery"
)

// Job describes one backup to take.
type Job struct {
	// Namespace, Cluster, UID and Reason are for the manifest.
	Namespace, Cluster, UID, Reason string
	// Access connects to the cluster.
	Access *Access
	// Tool verifies the snapshot.
	Tool Tool
	// Store stores the backup. Retention applies to backups requested in the same way: by people, or by hooks.
	Store     Store
	Retention Retention
	// Scratch is a directory for temporary files. Default: the one of the operating system.
	Scratch string
	// Progress is called with a short description of each step. It may be nil.
	Progress func(string)
}

// Take takes a snapshot, verifies it, stores it and removes expired backups.
func Take(ctx context.Context, job Job) (m Manifest, err error) {
	tell := job.Progress
	if tell == nil {
		tell = func(string) {}
	}
	if err := job.Tool.Check(); err != nil {
		return m, err
	}
	began := time.Now()
	m = Manifest{
		Name: nameOf(began, job.Reason), Namespace: job.Namespace, Cluster: job.Cluster, UID: job.UID, Reason: job.Reason,
		Time: began.UTC().Truncate(time.Second), Authorities: job.Access.Fingerprints,
	}
	directory, remove, err := Scratch(job.Scratch)
	if err != nil {
		return m, err
	}
	defer remove()
	file := filepath.Join(directory, snapshotFile)

	tell("taking a snapshot of etcd")
	if m.KubernetesVersion, err = kubernetesVersion(job.Access); err != nil {
		return m, err
	}
	live, err := connect(ctx, job.Access.Config, job.Access.etcd)
	if err != nil {
		return m, fmt.Errorf("reaching the cluster's etcd: %w", err)
	}
	defer live.Close()
	m.EtcdVersion = live.version
	size, sum, err := live.snapshot(ctx, file)
	if err != nil {
		return m, err
	}
	m.Size, m.SHA256 = size, hex.EncodeToString(sum)

	tell(fmt.Sprintf("verifying the snapshot of %d KiB by restoring it", size>>10))
	restored, err := job.Tool.Verify(ctx, file, directory)
	if err != nil {
		return m, fmt.Errorf("verifying the snapshot: %w", err)
	}
	m.Revision, m.Keys, m.Hash = restored.Revision, restored.Keys, restored.Hash
	if m.ComparedWithCluster, err = compare(ctx, live, restored); err != nil {
		return m, err
	}

	tell("keeping the snapshot")
	if err := job.Store.Add(ctx, m, file); err != nil {
		return m, err
	}
	if err := prune(ctx, job, m); err != nil {
		return m, fmt.Errorf("backup %s was verified and is kept, but what has expired could not be removed: %w", m.Name, err)
	}
	return m, nil
}

// compare reports whether the cluster itself has the same keys at that revision. It returns false without an error if
// that cannot be determined.
func compare(ctx context.Context, live *member, restored Contents) (bool, error) {
	if restored.Keys == 0 {
		return false, fmt.Errorf("the snapshot from %s holds no keys: a Kubernetes cluster always has some", live.name)
	}
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	there, err := read(ctx, live.Client, live.name, restored.Revision)
	if err != nil || there.Compacted != restored.Compacted {
		return false, nil // compacted, or the member is gone or slow; the snapshot's own checksum was right
	}
	if there.Hash != restored.Hash || there.Keys != restored.Keys {
		return false, fmt.Errorf("the restored snapshot differs from %s at revision %d: %d keys with hash %d, there are %d "+
			"with hash %d; take another backup, and look at the etcd member",
			live.name, restored.Revision, restored.Keys, restored.Hash, there.Keys, there.Hash)
	}
	return true, nil
}

// prune removes expired backups and what interrupted attempts left behind.
func prune(ctx context.Context, job Job, newest Manifest) error {
	all, err := job.Store.List(ctx, job.Namespace, job.Cluster)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	for _, m := range job.Retention.Expired(peers(all, newest), newest.Time) {
		if err := job.Store.Remove(ctx, m); err != nil {
			return err
		}
	}
	return job.Store.Tidy(ctx, job.Namespace, job.Cluster, newest.Time)
}

func kubernetesVersion(access *Access) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(access.Config)
	if err != nil {
		return "", fmt.Errorf("making a client of the cluster: %w", err)
	}
	version, err := d.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the cluster for its version: %w", err)
	}
	return version.GitVersion, nil
}
