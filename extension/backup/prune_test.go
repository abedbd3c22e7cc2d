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

// stores gives each sort of store with a backup file, and functions that leave in it what a try that was killed at a
// time leaves, and a manifest that can't be read.
func stores(t *testing.T) map[string]struct {
	Store
	left    func(at time.Time)
	damage  func(m Manifest)
	objects func() int // of cluster blue: files or directories that are there
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

// Whatever the store: after a backup what has expired goes, of the same cluster and asked for in the same way, and so
// does what tries have left that were killed long ago. A backup that is damaged stays, is named, and costs no other.
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
			store.left(now.Add(-leftFor + time.Hour)) // may be in the writing
			newest := backup("blue", upgrade, 0)
			if err := prune(t.Context(), Job{Namespace: "default", Cluster: "blue", Store: store, Retention: Retention{Keep: 2}},
				newest); err != nil {
				t.Fatal(err)
			}
			all, err := store.List(t.Context(), "", "")
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), broken.Name) {
				t.Errorf("the damaged one is told as %v", err)
			}
			var got []string
			for _, m := range all {
				got = append(got, fmt.Sprintf("%s %d", m.Cluster, int(now.Sub(m.Time).Hours())/24))
			}
			// Of what was taken before the same upgrade the last one stays, and with it the one before the deletion that
			// somebody thought better of.
			if want := []string{"blue 8", "blue 7", "green 6", "blue 0"}; !slices.Equal(got, want) {
				t.Errorf("there are %v, want %v", got, want)
			}
			if n := store.objects(); n != 5 { // three that are whole, the damaged one, and the one that is young
				t.Errorf("%d backups and pieces of some are left of blue, want 5", n)
			}
			// Who has a damaged one goes on all the same.
			cluster := blue()
			if have, err := fresh(t.Context(), store, cluster, upgrade, now, time.Hour); err != nil || have == nil ||
				have.Name != newest.Name {
				t.Errorf("found %v, %v", have, err)
			}
		})
	}
}
