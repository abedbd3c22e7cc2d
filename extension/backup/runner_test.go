package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/workload"
)

// noReader is never used: the tests replace take.
type noReader struct{ client.Reader }

// world is a runner whose take function is the test's.
type world struct {
	*runner
	policy Policy
	takes  atomic.Int32
}

func newWorld(t *testing.T, options Options, take func(context.Context) error) *world {
	t.Helper()
	if options.Reader == nil {
		options.Reader = noReader{}
	}
	if options.Directory == "" {
		options.Directory = filepath.Join(t.TempDir(), "backups")
	}
	r, err := newRunner(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	w := &world{runner: r, policy: defaults(t)}
	file, data := filepath.Join(t.TempDir(), "snapshot"), []byte("data")
	sum := sha256.Sum256(data)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	r.take = func(ctx context.Context, job Job) (Manifest, error) {
		n := w.takes.Add(1)
		if err := take(ctx); err != nil {
			return Manifest{}, err
		}
		m := Manifest{Name: fmt.Sprint(nameOf(time.Now(), job.Reason), n), Namespace: job.Namespace, Cluster: job.Cluster,
			UID: job.UID, Reason: job.Reason, Time: time.Now(),
			Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		return m, job.Store.Add(ctx, m, file)
	}
	return w
}

// defaults returns the policy of empty settings.
func defaults(t *testing.T) Policy {
	t.Helper()
	table, err := setting.NewTable(Settings()...)
	if err != nil {
		t.Fatal(err)
	}
	values, err := table.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	policy, err := ReadPolicy(values)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

func blue() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue", UID: "1"}}
}

// Ensure returns the answer to the hook: a message, or the error that blocks the hook.
func (w *world) Ensure(ctx context.Context, cluster *clusterv1.Cluster, reason string, policy Policy) (string, error) {
	answer, err := w.ensure(ctx, cluster, reason, policy)
	if err == nil && answer.Reason == "" {
		err = errors.New("the answer has no reason: " + answer.Message)
	}
	if err := errors.Join(err, answer.Err()); err != nil {
		return "", err
	}
	return answer.Message, nil
}

func (w *world) upgrade(ctx context.Context, to string) (string, error) {
	return w.Ensure(ctx, blue(), UpgradeReason("v1.35.4", to), w.policy)
}

func TestOneBackupForOneUpgrade(t *testing.T) {
	w := newWorld(t, Options{}, func(context.Context) error { return nil })
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
	w := newWorld(t, Options{}, func(ctx context.Context) error {
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
		if _, err := w.upgrade(short, "v1.36.3"); err == nil ||
			!strings.Contains(err.Error(), "wait 2s: backup of etcd, running since") {
			t.Errorf("while the backup runs: %v", err)
		}
	}
	close(release)
	if message, err := w.upgrade(t.Context(), "v1.36.3"); err != nil || !strings.Contains(message, "was verified") ||
		w.takes.Load() != 1 {
		t.Errorf("after the backup: %q, %v, %d backups", message, err, w.takes.Load())
	}
}

// Depending on the policy, a hook call waits until there is a backup, or goes on after three attempts.
func TestFailures(t *testing.T) {
	w := newWorld(t, Options{}, func(context.Context) error { return errors.New("no route to host") })
	at := time.Now()
	w.now = func() time.Time { return at }
	for try := range 5 {
		_, err := w.upgrade(t.Context(), "v1.36.3")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(try %d) and will be retried: no route to host",
			try+1)) {
			t.Errorf("try %d: %v", try, err)
		}
		if _, again := w.upgrade(t.Context(), "v1.36.3"); again == nil || again.Error() != err.Error() ||
			int(w.takes.Load()) != try+1 {
			t.Errorf("before the pause is over: %v, %d tries", again, w.takes.Load())
		}
		at = at.Add(longestPause)
	}
	w.policy.GoOn = true
	for try := range tries {
		message, err := w.upgrade(t.Context(), "v1.36.4")
		if last := try == tries-1; (err == nil) != last || last && !strings.Contains(message, "3 tries failed") {
			t.Errorf("if the upgrade may go on, try %d: %q, %v", try, message, err)
		}
		at = at.Add(longestPause)
	}
}

func TestATryIsBounded(t *testing.T) {
	w := newWorld(t, Options{}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	w.policy.Timeout = 10 * time.Millisecond
	if _, err := w.upgrade(t.Context(), "v1.36.3"); err == nil ||
		!strings.Contains(err.Error(), `it took longer than 10ms (setting "backup.timeout")`) {
		t.Errorf("error %v", err)
	}
}

// A backup waits for its turn while backups of other clusters are taken. This wait does not count towards its timeout.
func TestWaitingForOthersIsNoTimeOfATry(t *testing.T) {
	release := make(chan struct{})
	var begun atomic.Int32
	w := newWorld(t, Options{}, func(ctx context.Context) error {
		if begun.Add(1) > parallel {
			return ctx.Err()
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	ensure := func(ctx context.Context, n int, timeout time.Duration) (string, error) {
		cluster, policy := blue(), w.policy
		cluster.Name, cluster.UID, policy.Timeout = fmt.Sprint("c", n), types.UID(fmt.Sprint(n)), timeout
		return w.Ensure(ctx, cluster, ReasonDelete, policy)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for n := range parallel {
		if _, err := ensure(ended, n, time.Minute); err == nil {
			t.Fatal("the backup did not wait")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until(ctx, t, func() bool { return begun.Load() == parallel })
	const little = time.Second
	start := time.Now()
	until(ctx, t, func() bool {
		_, err := ensure(ended, parallel, little)
		if err == nil || !strings.Contains(err.Error(), "waiting for backups of other clusters") {
			t.Fatalf("while others are taken: %v", err)
		}
		return time.Since(start) > little+little/2
	})
	close(release)
	if message, err := ensure(ctx, parallel, little); err != nil || !strings.Contains(message, "was verified") {
		t.Errorf("after the others: %q, %v", message, err)
	}
}

// A kubeadm cluster that lacks an authority has lost something, so it must not be upgraded as if there were nothing to
// back up.
func TestAnAuthorityIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		kind  string
		waits bool
	}{
		"a control plane of kubeadm":      {"KubeadmControlPlane", true},
		"a control plane of another kind": {"HostedControlPlane", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{Reader: controlPlane{initialized: true}},
				func(context.Context) error { return fmt.Errorf("%w: there is no Secret blue-etcd", ErrNoAuthority) })
			cluster := blue()
			cluster.Spec.ControlPlaneRef.Kind = c.kind
			message, err := w.Ensure(t.Context(), cluster, UpgradeReason("v1.35.4", "v1.36.3"), w.policy)
			if (err != nil) != c.waits || !strings.Contains(fmt.Sprint(message, err), "there is no Secret blue-etcd") {
				t.Errorf("%q, %v", message, err)
			}
		})
	}
}

// controlPlane reads a control plane, and nothing else.
type controlPlane struct {
	client.Reader
	initialized bool
	err         error
}

func (c controlPlane) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if c.err != nil {
		return c.err
	}
	return unstructured.SetNestedField(into.(*unstructured.Unstructured).Object, c.initialized, "status", "initialization",
		"controlPlaneInitialized")
}

// A control plane that was never initialized has nothing to back up, although Cluster API has created its Secrets, so
// its cluster can be deleted.
func TestAControlPlaneThatNeverCameUp(t *testing.T) {
	for name, c := range map[string]struct {
		reader controlPlane
		takes  int32
		want   string
	}{
		"never initialized": {controlPlane{}, 0, "no backup is taken: the cluster has no control plane yet"},
		"initialized":       {controlPlane{initialized: true}, 1, "was verified"},
		"gone":              {controlPlane{err: apierrors.NewNotFound(schema.GroupResource{}, "blue")}, 1, "was verified"},
		"unreadable": {controlPlane{err: errors.New("no answer")}, 0,
			"will be retried: reading KubeadmControlPlane blue: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{Reader: c.reader}, func(context.Context) error { return nil })
			cluster := blue()
			cluster.Spec.ControlPlaneRef.Kind, cluster.Spec.ControlPlaneRef.Name = workload.KubeadmControlPlane.Kind, "blue"
			message, err := w.Ensure(t.Context(), cluster, ReasonDelete, w.policy)
			if text := fmt.Sprint(message, err); !strings.Contains(text, c.want) || w.takes.Load() != c.takes {
				t.Errorf("%d attempts, %s; want %d, %s", w.takes.Load(), text, c.takes, c.want)
			}
		})
	}
}

func TestWhatNeedsNoBackup(t *testing.T) {
	for name, err := range map[string]error{
		"a cluster that has nothing to save": fmt.Errorf("%w: no Secret", ErrNotInitialized),
		"an etcd that is not the cluster's":  fmt.Errorf("%w: no key", ErrElsewhere),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{}, func(context.Context) error { return err })
			message, got := w.upgrade(t.Context(), "v1.36.3")
			if got != nil || !strings.Contains(message, "no backup is taken: "+err.Error()) || w.takes.Load() != 1 {
				t.Errorf("%q after %d tries, %v", message, w.takes.Load(), got)
			}
		})
	}
}

func TestNoPlace(t *testing.T) {
	r, err := newRunner(Options{Reader: noReader{}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if _, err := r.ensure(t.Context(), blue(), ReasonDelete, defaults(t)); !errors.Is(err, ErrNoPlace) {
		t.Errorf("error %v", err)
	}
}

// Without an etcd to verify with, no backup is taken, and the answer says what to do.
func TestNoTool(t *testing.T) {
	if _, err := Take(t.Context(), Job{}); err == nil || !strings.Contains(err.Error(), "--bundle") {
		t.Errorf("error %v", err)
	}
}

func TestSettings(t *testing.T) {
	table, err := setting.NewTable(Settings()...)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ setting, value, want string }{
		"no backups are kept": {settingKeep, "0", "between 1 and 500"},
		"not a number":        {settingKeep, "many", "between 1 and 500"},
		"an age below zero":   {settingMaxAge, "-1h", "out of range"},
		"an unlimited age":    {settingMaxAge, "0s", ""},
		"stale at once":       {settingFreshFor, "1s", "1m or more"},
		"a timeout too short": {settingTimeout, "1s", "between 10s and 2h"},
		"a timeout too long":  {settingTimeout, "24h", "between 10s and 2h"},
		"not a duration":      {settingTimeout, "soon", "it is not a duration"},
		"a valid setting":     {settingKeep, "3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := table.Read(map[string]string{c.setting: c.value})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if err == nil {
				_, err = ReadPolicy(values)
			}
			if c.want == "" && err != nil {
				t.Error(err)
			}
		})
	}
}
