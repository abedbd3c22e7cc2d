package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noReader is never asked: takes are the tests' own.
type noReader struct{ client.Reader }

// world is a Backup whose takes do what a test says.
type world struct {
	*Backup
	values map[string]string
	takes  atomic.Int32
}

func newWorld(t *testing.T, take func(context.Context) error) *world {
	t.Helper()
	b, err := New(Options{Reader: noReader{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	w := &world{Backup: b, values: map[string]string{SettingDirectory: filepath.Join(t.TempDir(), "backups")}}
	file := filepath.Join(t.TempDir(), "snapshot")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.take = func(ctx context.Context, cluster *clusterv1.Cluster, reason string, settings Settings, _ func(string)) (Manifest, error) {
		n := w.takes.Add(1)
		if err := take(ctx); err != nil {
			return Manifest{}, err
		}
		m := Manifest{Name: fmt.Sprint(nameOf(time.Now(), reason), n), Namespace: cluster.Namespace, Cluster: cluster.Name, UID: string(cluster.UID), Reason: reason, Time: time.Now()}
		return m, Disk{settings.Directory}.Add(ctx, m, file)
	}
	return w
}

func blue() clusterv1.Cluster {
	return clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "1"}}
}

func (w *world) upgrade(ctx context.Context, to string) (string, error) {
	response := &runtimehooksv1.BeforeClusterUpgradeResponse{}
	err := w.BeforeClusterUpgrade(ctx, w.values, &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: blue(), FromKubernetesVersion: "v1.35.4", ToKubernetesVersion: to}, response)
	return response.Message, err
}

func (w *world) delete(ctx context.Context) (string, error) {
	response := &runtimehooksv1.BeforeClusterDeleteResponse{}
	err := w.BeforeClusterDelete(ctx, w.values, &runtimehooksv1.BeforeClusterDeleteRequest{Cluster: blue()}, response)
	return response.Message, err
}

func TestOneBackupForOneUpgrade(t *testing.T) {
	w := newWorld(t, func(context.Context) error { return nil })
	for range 3 {
		if message, err := w.upgrade(t.Context(), "v1.36.3"); err != nil || !strings.Contains(message, "was verified") {
			t.Fatalf("got %q, %v", message, err)
		}
	}
	if n := w.takes.Load(); n != 1 {
		t.Errorf("%d backups were taken for one upgrade", n)
	}
	if _, err := w.upgrade(t.Context(), "v1.36.4"); err != nil || w.takes.Load() != 2 {
		t.Errorf("another upgrade: %d backups, %v", w.takes.Load(), err)
	}
	w.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if _, err := w.upgrade(t.Context(), "v1.36.4"); err != nil || w.takes.Load() != 3 {
		t.Errorf("an upgrade that was held for two hours: %d backups, %v", w.takes.Load(), err)
	}
}

func TestItBlocksWhileABackupRuns(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, func(ctx context.Context) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range 2 {
		if _, err := w.upgrade(short, "v1.36.3"); err == nil || !strings.Contains(err.Error(), "wait 2s: backup of etcd since") {
			t.Errorf("while it runs: %v", err)
		}
	}
	close(release)
	if message, err := w.upgrade(t.Context(), "v1.36.3"); err != nil || !strings.Contains(message, "was verified") || w.takes.Load() != 1 {
		t.Errorf("after it: %q, %v, %d backups", message, err, w.takes.Load())
	}
}

// An upgrade waits for its backup, a deletion goes on after three tries.
func TestFailures(t *testing.T) {
	w := newWorld(t, func(context.Context) error { return errors.New("no route to host") })
	at := time.Now()
	w.now = func() time.Time { return at }
	for try := range 5 {
		_, err := w.upgrade(t.Context(), "v1.36.3")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(try %d), is tried again: no route to host", try+1)) {
			t.Errorf("try %d: %v", try, err)
		}
		if _, again := w.upgrade(t.Context(), "v1.36.3"); again == nil || again.Error() != err.Error() || int(w.takes.Load()) != try+1 {
			t.Errorf("before its pause is over: %v, %d tries", again, w.takes.Load())
		}
		at = at.Add(longestPause)
	}
	for try := range deleteTries {
		message, err := w.delete(t.Context())
		if last := try == deleteTries-1; (err == nil) != last || last && !strings.Contains(message, "3 tries failed") {
			t.Errorf("deletion, try %d: %q, %v", try, message, err)
		}
		at = at.Add(longestPause)
	}
}

func TestWhatNeedsNoBackup(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]string
		take   error
		takes  int32
	}{
		"no directory":                       {map[string]string{SettingDirectory: ""}, nil, 0},
		"the moment is switched off":         {map[string]string{SettingBeforeDelete: "false"}, nil, 0},
		"a cluster that has nothing to save": {nil, fmt.Errorf("%w: no Secret", ErrNotInitialized), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(context.Context) error { return c.take })
			for setting, value := range c.values {
				w.values[setting] = value
			}
			if _, err := w.delete(t.Context()); err != nil || w.takes.Load() != c.takes {
				t.Errorf("%d tries, %v", w.takes.Load(), err)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct{ setting, value, want string }{
		"a relative directory":    {SettingDirectory, "backups", "absolute"},
		"nothing kept":            {SettingKeep, "0", "between 1 and 500"},
		"an age below zero":       {SettingMaxAge, "-1h", "must not be negative"},
		"stale at once":           {SettingFreshFor, "1s", "at least 1m"},
		"a switch that is none":   {SettingBeforeUpgrade, "perhaps", "true or false"},
		"all as it should be":     {SettingKeep, "3", ""},
		"settings of other parts": {"maintenance-window.windows", "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadSettings(map[string]string{c.setting: c.value})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
