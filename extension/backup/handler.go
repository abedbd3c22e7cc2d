package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/server"
)

const (
	// jobTimeout bounds one backup.
	jobTimeout = 10 * time.Minute
	// patience is how long a call waits for a backup before it blocks: that of a small cluster is done by then, and costs no second call.
	patience = 5 * time.Second
	// askAgain is how soon a call comes again while a backup runs.
	askAgain = 2 * time.Second
	// firstPause and longestPause are between tries that fail.
	firstPause   = 5 * time.Second
	longestPause = 2 * time.Minute
	// deleteTries is how often a backup is tried before a deletion goes on without one: a cluster that is deleted is often broken.
	deleteTries = 3
	// parallel is how many backups are taken at the same time, of different clusters.
	parallel = 2
	// maxJobs bounds how many clusters are remembered.
	maxJobs = 1000
)

// Options of a [Backup].
type Options struct {
	// Reader reads the Secrets of clusters. Required.
	Reader client.Reader
	// Tool verifies snapshots. Without one the handlers block, and say so, as soon as a directory is set.
	Tool Tool
	// Log gets a line for each backup. Default: none.
	Log *slog.Logger
}

// Backup has the handlers. Make it with [New], and Close it. They wait for at most five seconds; a backup that takes longer goes on while the
// hook is blocked.
type Backup struct {
	options Options
	take    func(context.Context, *clusterv1.Cluster, string, Settings, func(string)) (Manifest, error)
	now     func() time.Time
	slots   chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu   sync.Mutex
	jobs map[key]*job
}

// key tells what a backup is for.
type key struct{ uid, reason string }

// job is the last try of a backup.
type job struct {
	ended    chan struct{} // closed at the end
	began    time.Time
	doing    string // guarded by Backup.mu, like all below
	failures int
	err      error
	retry    time.Time
}

// New makes the handlers.
func New(options Options) (*Backup, error) {
	if options.Reader == nil {
		return nil, errors.New("making the handlers of backups: they need a Reader for Secrets")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	b := &Backup{options: options, now: time.Now, slots: make(chan struct{}, parallel), jobs: map[key]*job{}}
	b.take = b.takeNow
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Close ends backups that run and waits for them.
func (b *Backup) Close() {
	b.cancel()
	b.wait.Wait()
}

// BeforeClusterUpgrade blocks until there is a fresh backup for the upgrade.
func (b *Backup) BeforeClusterUpgrade(ctx context.Context, values map[string]string, request *runtimehooksv1.BeforeClusterUpgradeRequest, response *runtimehooksv1.BeforeClusterUpgradeResponse) error {
	settings, err := ReadSettings(values)
	if err != nil || settings.Directory == "" || !settings.BeforeUpgrade {
		return err
	}
	response.Message, err = b.ensure(ctx, &request.Cluster, UpgradeReason(request.FromKubernetesVersion, request.ToKubernetesVersion), settings, 0)
	return err
}

// BeforeClusterDelete blocks until there is a backup, or three tries have failed.
func (b *Backup) BeforeClusterDelete(ctx context.Context, values map[string]string, request *runtimehooksv1.BeforeClusterDeleteRequest, response *runtimehooksv1.BeforeClusterDeleteResponse) error {
	settings, err := ReadSettings(values)
	if err != nil || settings.Directory == "" || !settings.BeforeDelete {
		return err
	}
	response.Message, err = b.ensure(ctx, &request.Cluster, ReasonDelete, settings, deleteTries)
	return err
}

// ensure makes sure of a backup: it gives a message when there is one, or none is needed, and else an error that blocks. After as many failures as
// tries it is not needed any more; 0 means never.
func (b *Backup) ensure(ctx context.Context, cluster *clusterv1.Cluster, reason string, settings Settings, tries int) (string, error) {
	all, err := Disk{settings.Directory}.List(ctx, cluster.Namespace, cluster.Name)
	if err != nil {
		return "", err
	}
	if m := fresh(all, string(cluster.UID), reason, b.now(), settings.FreshFor); m != nil {
		return fmt.Sprintf("backup %s of %d KiB at revision %d was verified", m.Name, m.Size>>10, m.Revision), nil
	}
	j, err := b.start(cluster, reason, settings)
	if err != nil {
		return "", err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-j.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return b.judge(j, tries)
}

// fresh finds the newest backup of a cluster for a reason, if it is fresh enough.
func fresh(all []Manifest, uid, reason string, now time.Time, freshFor time.Duration) *Manifest {
	for i := len(all) - 1; i >= 0; i-- {
		if m := &all[i]; m.UID == uid && m.Reason == reason && now.Sub(m.Time) < freshFor {
			return m
		}
	}
	return nil
}

// start gives the job that runs for a cluster, and begins one if none does and it is time.
func (b *Backup) start(cluster *clusterv1.Cluster, reason string, settings Settings) (*job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := key{string(cluster.UID), reason}
	last := b.jobs[k]
	failures := 0
	if last != nil {
		running := last.err == nil && !last.isEnded()
		if running || b.now().Before(last.retry) {
			return last, nil
		}
		failures = last.failures
	}
	b.forget()
	if len(b.jobs) >= maxJobs {
		return nil, server.Wait(askAgain, "backups of too many clusters are waited for: this one has to wait")
	}
	j := &job{ended: make(chan struct{}), began: b.now(), doing: "waiting for backups of other clusters", failures: failures}
	b.jobs[k] = j
	cluster = cluster.DeepCopy()
	b.wait.Go(func() { b.run(j, cluster, reason, settings) })
	return j, nil
}

func (j *job) isEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// forget drops jobs that nobody has asked for since long.
func (b *Backup) forget() {
	for k, j := range b.jobs {
		if j.isEnded() && b.now().Sub(j.began) > 2*jobTimeout {
			delete(b.jobs, k)
		}
	}
}

func (b *Backup) run(j *job, cluster *clusterv1.Cluster, reason string, settings Settings) {
	defer close(j.ended)
	ctx, cancel := context.WithTimeout(b.ctx, jobTimeout)
	defer cancel()
	m, err := b.inTurn(ctx, func() (Manifest, error) {
		return b.take(ctx, cluster, reason, settings, func(doing string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			j.doing = doing
		})
	})
	log := b.options.Log.With("cluster", cluster.Namespace+"/"+cluster.Name, "reason", reason, "duration", b.now().Sub(j.began).String())
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		log.Info("A backup was taken", "backup", m.Name, "bytes", m.Size, "revision", m.Revision, "keys", m.Keys)
		j.failures, j.doing = 0, fmt.Sprintf("backup %s of %d KiB at revision %d was verified", m.Name, m.Size>>10, m.Revision)
		return
	}
	log.Error("A backup failed", "error", err)
	j.err, j.failures = err, j.failures+1
	j.retry = b.now().Add(min(firstPause<<min(j.failures-1, 10), longestPause))
}

func (b *Backup) inTurn(ctx context.Context, do func() (Manifest, error)) (Manifest, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
		return do()
	case <-ctx.Done():
		return Manifest{}, context.Cause(ctx)
	}
}

// judge says what a job means for the hook.
func (b *Backup) judge(j *job, tries int) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(j.err, ErrNotInitialized):
		return "there is nothing to back up: " + j.err.Error(), nil
	case j.err != nil && tries > 0 && j.failures >= tries:
		return fmt.Sprintf("no backup was taken, %d tries failed: %v", j.failures, j.err), nil
	case j.err != nil:
		pause := max(j.retry.Sub(b.now()), time.Second)
		return "", server.Wait(pause, fmt.Sprintf("backup of etcd failed (try %d), is tried again: %v", j.failures, j.err))
	case j.isEnded():
		return j.doing, nil
	}
	return "", server.Wait(askAgain, fmt.Sprintf("backup of etcd since %s: %s", j.began.UTC().Format("15:04:05 MST"), j.doing))
}

// takeNow takes one backup.
func (b *Backup) takeNow(ctx context.Context, cluster *clusterv1.Cluster, reason string, settings Settings, progress func(string)) (Manifest, error) {
	access, err := ReadAccess(ctx, b.options.Reader, cluster.Namespace, cluster.Name)
	if err != nil {
		return Manifest{}, err
	}
	return Take(ctx, Job{
		Namespace: cluster.Namespace, Cluster: cluster.Name, UID: string(cluster.UID), Reason: reason, Access: access, Tool: b.options.Tool,
		Store: Disk{settings.Directory}, Retention: Retention{Keep: settings.Keep, MaxAge: settings.MaxAge}, Progress: progress,
	})
}
