package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stores returns each kind of store. left puts the remains of an attempt that was killed at the given time into the
// store; damage makes a backup's manifest unreadable.
func stores(t *testing.T) map[string]struct {
	Store
	left    func(at time.Time)
	damage  func(m Manifest)
	objects func() int // number of files or directories of cluster blue
} {
	t.Helper()
	s, bucket, _, _ := newBucket(t, "site")
	disk := Disk{filepath.Join(t.TempDir(), "backups")}
	return map[string]struct {
		Store
		left    func(at time.Time)
		damage  func(m Manifest)
		objects func() int
	}{
		"on disk": {disk, func(at time.Time) {
			path := filepath.Join(disk.Directory, "default", "blue", newPrefix+at.Format(nameTime))
			if err := errors.Join(os.MkdirAll(path, 0o700), os.Chtimes(path, at, at)); err != nil {
				t.Error(err)
			}
		}, func(m Manifest) {
			if err := os.WriteFile(filepath.Join(disk.path(m), manifestFile), nil, 0o600); err != nil {
				t.Error(err)
			}
		}, func() int {
			entries, _ := os.ReadDir(filepath.Join(disk.Directory, "default", "blue"))
			return len(entries)
		}},
		"in a bucket": {bucket, func(at time.Time) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.objects["site/default/blue/"+nameOf(at, ReasonDelete)+"/"+snapshotFile] = []byte("half")
		}, func(m Manifest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.objects[bucket.key(m, manifestFile)] = nil
		}, func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			directories := map[string]bool{}
			for key := range s.objects {
				if strings.HasPrefix(key, "site/default/blue/") {
					directories[filepath.Dir(key)] = true
				}
			}
			return len(directories)
		}},
	}
}

// In each store, a backup removes the expired backups of the same cluster that were requested in the same way, and the
// remains of attempts that were killed long ago. A damaged backup stays and is named in the error. It does not cause
// the removal of others.
func TestRetentionInEachStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("data"))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			backup := func(cluster, reason string, daysAgo int) Manifest {
				at := now.AddDate(0, 0, -daysAgo)
				m := Manifest{
					Name: nameOf(at, reason), Namespace: "default", Cluster: cluster, UID: "1", Reason: reason, Time: at, Size: 4,
					SHA256: hex.EncodeToString(sum[:]),
				}
				if err := store.Add(t.Context(), m, file); err != nil {
					t.Fatal(err)
				}
				return m
			}
			upgrade := UpgradeReason("v1.35.4", "v1.36.3")
			backup("blue", upgrade, 9)
			backup("blue", ReasonDelete, 8)
			backup("blue", ReasonManual, 7)
			backup("green", upgrade, 6)
			broken := backup("blue", upgrade, 5)
			store.damage(broken)
			backup("blue", upgrade, 4)
			store.left(now.Add(-leftFor - time.Hour))
			store.left(now.Add(-leftFor + time.Hour)) // may still be written
			newest := backup("blue", upgrade, 0)
			if err := prune(t.Context(), Job{Namespace: "default", Cluster: "blue", Store: store, Retention: Retention{Keep: 2}},
				newest); err != nil {
				t.Fatal(err)
			}
			all, err := store.List(t.Context(), "", "")
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), broken.Name) {
				t.Errorf("the error for the damaged backup is %v", err)
			}
			var got []string
			for _, m := range all {
				got = append(got, fmt.Sprintf("%s %d", m.Cluster, int(now.Sub(m.Time).Hours())/24))
			}
			// Of the backups before the same upgrade, only the newest stays. The backup before a deletion that was
			// called off stays, too.
			if want := []string{"blue 8", "blue 7", "green 6", "blue 0"}; !slices.Equal(got, want) {
				t.Errorf("the remaining backups are %v, want %v", got, want)
			}
			if n := store.objects(); n != 5 { // three backups, the damaged one, and the recent remains
				t.Errorf("cluster blue has %d backups and remains of attempts, want 5", n)
			}
			// A cluster with a damaged backup can still go on.
			cluster := blue()
			if have, err := fresh(t.Context(), store, cluster, upgrade, now, time.Hour); err != nil || have == nil ||
				have.Name != newest.Name {
				t.Errorf("found %v, %v", have, err)
			}
		})
	}
}
