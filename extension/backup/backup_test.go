package backup

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/capstan-dev/capstan/test/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tool(t *testing.T) Tool {
	t.Helper()
	path, err := apiserver.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	return Tool{Path: path}
}

// snapshotOf runs an etcd, stores these keys in it, and returns a snapshot and the content.
func snapshotOf(t *testing.T, keys ...string) (file string, contents Contents, m Manifest) {
	t.Helper()
	// The paths of sockets must be short.
	directory, err := os.MkdirTemp("", "backup-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	file = filepath.Join(directory, snapshotFile)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err = tool(t).serve(ctx, directory, filepath.Join(directory, "data"), "http://localhost:2380",
		func(c *clientv3.Client) error {
			for _, key := range keys {
				if _, err := c.Put(ctx, "/registry/"+key, strings.Repeat(key, 1000)); err != nil {
					return err
				}
			}
			if contents, err = read(ctx, c, c.Endpoints()[0], 0); err != nil {
				return err
			}
			live := &member{Client: c, name: "etcd"}
			size, sum, err := live.snapshot(ctx, file)
			m = Manifest{
				Name: nameOf(time.Now(), ReasonManual), Namespace: "default", Cluster: "blue", Reason: ReasonManual,
				Time: time.Now(),
				Size: size, SHA256: hex.EncodeToString(sum), Revision: contents.Revision, Keys: contents.Keys, Hash: contents.Hash,
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	return file, contents, m
}

// A snapshot of a real etcd is restored into another etcd, which then has the same content. The backup is stored,
// found, fetched and removed.
func TestSnapshotIsVerifiedAndKept(t *testing.T) {
	file, want, m := snapshotOf(t, "a", "b", "c")
	scratch := t.TempDir()
	got, err := tool(t).Verify(t.Context(), file, scratch)
	if err != nil || got != want || got.Keys != 3 {
		t.Fatalf("restored %+v, %v, want %+v", got, err, want)
	}
	if left, _ := os.ReadDir(scratch); len(left) != 0 {
		t.Errorf("Verify has left the files %v", left)
	}

	store := Disk{Directory: filepath.Join(t.TempDir(), "backups")}
	if err := store.Add(t.Context(), m, file); err != nil {
		t.Fatal(err)
	}
	if err := store.Add(t.Context(), m, file); err == nil {
		t.Error("a backup was replaced by another one of the same name")
	}
	for _, names := range [][2]string{{"default", "blue"}, {"", ""}} {
		if all, err := store.List(t.Context(), names[0], names[1]); err != nil || len(all) != 1 || all[0].Hash != m.Hash {
			t.Errorf("backups of %q: %+v, %v", names, all, err)
		}
	}
	if all, err := store.List(t.Context(), "default", "green"); err != nil || len(all) != 0 {
		t.Errorf("backups of another cluster: %+v, %v", all, err)
	}
	err = filepath.WalkDir(store.Directory, func(path string, entry os.DirEntry, err error) error {
		if info, infoErr := entry.Info(); err == nil && (infoErr != nil || info.Mode().Perm()&0o077 != 0) {
			t.Errorf("%s has mode %v, %v: others can read it", path, info.Mode(), infoErr)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	fetched := filepath.Join(t.TempDir(), "fetched.db")
	if err := store.Fetch(t.Context(), m, fetched); err != nil {
		t.Error(err)
	}
	damage(t, filepath.Join(store.path(m), snapshotFile))
	if err := store.Fetch(t.Context(), m, fetched+"2"); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("fetching a damaged backup: error %v", err)
	}
	for range 2 {
		if err := store.Remove(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	if all, err := store.List(t.Context(), "default", "blue"); err != nil || len(all) != 0 {
		t.Errorf("backups after the removal: %+v, %v", all, err)
	}
}

func TestDamagedSnapshotIsFound(t *testing.T) {
	file, _, _ := snapshotOf(t, "a")
	damage(t, file)
	if _, err := tool(t).Verify(t.Context(), file, t.TempDir()); err == nil || !strings.Contains(err.Error(), "etcdutl") {
		t.Errorf("error %v", err)
	}
}

// The restored data has a revision that no client of the old cluster has seen.
func TestRestoredRevisionIsHigher(t *testing.T) {
	file, old, _ := snapshotOf(t, "a")
	directory, err := os.MkdirTemp("", "backup-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	data := filepath.Join(directory, "data")
	const peer = "http://localhost:2380"
	if err := tool(t).Restore(t.Context(), file, data, Identity{"scratch", peer}); err != nil {
		t.Fatal(err)
	}
	err = tool(t).serve(t.Context(), directory, data, peer, func(c *clientv3.Client) error {
		answer, err := c.Get(t.Context(), "/registry/a")
		if err == nil && (answer.Count != 1 || answer.Header.Revision < old.Revision+1_000_000) {
			t.Errorf("%d keys at revision %d; the revision of the snapshot is %d",
				answer.Count, answer.Header.Revision, old.Revision)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTrailing(t *testing.T) {
	file, _, _ := snapshotOf(t, "a")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data  []byte
		right bool
	}{
		"a whole snapshot":                {whole, true},
		"a snapshot that was cut off":     {whole[:len(whole)-1], false},
		"a snapshot without its checksum": {whole[:len(whole)-32], false},
		"an empty file":                   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			sum := newTrailing()
			for chunk := c.data; len(chunk) > 0; {
				n, _ := sum.Write(chunk[:min(len(chunk), 1000)])
				chunk = chunk[n:]
			}
			if sum.right() != c.right {
				t.Errorf("right is %v, want %v", !c.right, c.right)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"blue": true, "20260102T030405Z-manual": true, "": false, "..": false, "a/b": false, ".new": false,
	} {
		if err := checkName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestMatches(t *testing.T) {
	m := Manifest{Name: "x", Cluster: "blue", Authorities: map[string]string{"ca": "1", "sa": "2"}}
	if err := m.Matches(map[string]string{"ca": "1", "sa": "2", "etcd": "3"}); err != nil {
		t.Error(err)
	}
	if err := m.Matches(map[string]string{"ca": "1", "sa": "9"}); err == nil ||
		!strings.Contains(err.Error(), "Secret blue-sa") {
		t.Errorf("error %v", err)
	}
}

func damage(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0xff
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
