package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/finding"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/workload"
)

const (
	// patience is how long a call waits for a backup before it blocks. A small cluster is backed up by then and needs
	// no second call.
	patience = 5 * time.Second
	// lookTimeout limits the search for an existing backup. Together with patience it is shorter than the callers'
	// timeout.
	lookTimeout = 3 * time.Second
	// askAgain is the retry interval of a call while a backup runs.
	askAgain = 2 * time.Second
	// firstPause and longestPause are the shortest and longest pause between failed attempts.
	firstPause   = 5 * time.Second
	longestPause = 2 * time.Minute
	// tries is the number of attempts before [Policy.GoOn] lets the cluster go on without a backup.
	tries = 3
	// queueFor plus [Policy.Timeout] is the limit for an attempt, which can wait that long for backups of other
	// clusters. [Policy.Timeout] alone limits the backup itself, without that wait.
	queueFor = time.Hour
	// parallel is the number of backups, of different clusters, that one process takes at the same time.
	parallel = 2
	// maxJobs is the maximum number of remembered attempts.
	maxJobs = 1000
	// rememberFor is how long an attempt is remembered if nobody asks about it any more.
	rememberFor = time.Hour
)

// Reasons of the part's findings.
const (
	// ReasonVerified means that there is a verified backup.
	ReasonVerified = "BackupVerified"
	// ReasonNotNeeded means that the cluster has nothing that can be backed up from here.
	ReasonNotNeeded = "BackupNotNeeded"
	// ReasonFailed means that an attempt failed.
	ReasonFailed = "BackupFailed"
	// ReasonRunning means that an attempt is running.
	ReasonRunning = "BackupRunning"
	// ReasonTooMany means that too many clusters are waiting for backups.
	ReasonTooMany = "TooManyBackups"
	// ReasonNoPlace means that there is nowhere to store backups.
	ReasonNoPlace = "NoPlaceForBackups"
)

// ErrNoPlace reports that no place to store backups is configured, so none are taken.
var ErrNoPlace = errors.New("there is no place to keep backups: start the extension with --backups DIRECTORY, or " +
	"set a bucket")

// Options configure the part.
type Options struct {
	// Reader reads the Secrets of clusters. Required.
	Reader client.Reader
	// Tool verifies snapshots. Without it no backup is taken, and whatever waits for one reports that.
	Tool Tool
	// Directory stores backups, unless the policy names a bucket. Default: there is no place, see [ErrNoPlace].
	Directory string
	// Replicas lets processes take turns. Default: this process is the only one.
	Replicas *Replicas
	// Log receives a line for each backup. Default: none.
	Log *slog.Logger
	// Now returns the time, for maintenance windows. Default: time.Now.
	Now func() time.Time
}

// runner takes the backups that calls of hooks wait for. Create it with newRunner, and close it. A call waits at most
// five seconds for an attempt; a longer backup continues while the hook is blocked.
type runner struct {
	options Options
	take    func(context.Context, Job) (Manifest, error)
	now     func() time.Time
	slots   chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu   sync.Mutex
	jobs map[key]*try
}

// key identifies what a backup is for.
type key struct{ uid, reason string }

// try is the latest attempt at a backup.
type try struct {
	ended    chan struct{} // closed at the end
	began    time.Time
	kubeadm  bool   // kubeadm manages the control plane, so it has its own authorities
	doing    string // guarded by runner.mu, like all fields below
	failures int
	err      error
	retry    time.Time
}

func newRunner(options Options) (*runner, error) {
	if options.Reader == nil {
		return nil, errors.New("making the part that takes backups: it needs a Reader for Secrets")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	r := &runner{options: options, now: time.Now, slots: make(chan struct{}, parallel), jobs: map[key]*try{}}
	r.take = r.takeNow
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// close cancels running backups and waits for them.
func (r *runner) close() {
	r.cancel()
	r.wait.Wait()
}

// ensure ensures that there is a fresh backup of a cluster for a reason. It lets the Cluster go on if there is one or
// none is needed. The error is [ErrNoPlace] if there is nowhere to store backups.
func (r *runner) ensure(
	ctx context.Context, cluster *clusterv1.Cluster, reason string, policy Policy,
) (answer part.Answer, err error) {
	have, err := r.look(ctx, cluster, reason, policy)
	if errors.Is(err, ErrNoPlace) {
		return answer, err
	}
	if err == nil && have != nil {
		return part.Pass(finding.Finding{Reason: ReasonVerified, Message: verified(have)}), nil
	}
	// The attempt finds the same problem with the store again and counts it.
	t := r.start(cluster, reason, policy)
	if t == nil {
		return part.Hold(askAgain, finding.Finding{
			Reason: ReasonTooMany, Message: "too many clusters are waiting for backups: this one has to wait",
		}), nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.judge(t, policy.GoOn), nil
}

// look returns an existing backup, or nil.
func (r *runner) look(
	ctx context.Context, cluster *clusterv1.Cluster, reason string, policy Policy,
) (*Manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	store, end, err := r.store(ctx, policy)
	if err != nil {
		return nil, err
	}
	defer end()
	return fresh(ctx, store, cluster, reason, r.now(), policy.FreshFor)
}

// store opens the store of backups. The caller must call end unless there is an error.
func (r *runner) store(ctx context.Context, policy Policy) (store Store, end func(), err error) {
	if policy.Place.Bucket == "" {
		if r.options.Directory == "" {
			return nil, nil, ErrNoPlace
		}
		return Disk{r.options.Directory}, func() {}, nil
	}
	secret := &corev1.Secret{}
	if err := r.options.Reader.Get(ctx, policy.Credentials, secret); err != nil {
		return nil, nil, fmt.Errorf("reading Secret %s with the keys of bucket %s: %w", policy.Credentials,
			policy.Place.Bucket, err)
	}
	bucket, err := OpenBucket(policy.Place, Credentials{
		AccessKeyID: string(secret.Data["access-key-id"]), SecretAccessKey: string(secret.Data["secret-access-key"]),
		CA: secret.Data["ca.crt"],
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w (Secret %s)", err, policy.Credentials)
	}
	return bucket, bucket.Close, nil
}

// fresh returns the newest backup of a cluster for a reason if it is fresh enough, else nil.
func fresh(ctx context.Context, store Store, cluster *clusterv1.Cluster, reason string, now time.Time,
	freshFor time.Duration) (*Manifest, error) {
	all, err := store.List(ctx, cluster.Namespace, cluster.Name)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if m := &all[i]; m.UID == string(cluster.UID) && m.Reason == reason && now.Sub(m.Time) < freshFor {
			return m, nil
		}
	}
	return nil, nil
}

func verified(m *Manifest) string {
	return fmt.Sprintf("backup %s of %d KiB at revision %d was verified", m.Name, m.Size>>10, m.Revision)
}

// start returns the running attempt for a cluster. If there is none, it starts one. But if the last attempt failed too
// recently, it returns that attempt instead. It returns nil if too many clusters are waiting.
func (r *runner) start(cluster *clusterv1.Cluster, reason string, policy Policy) *try {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := key{string(cluster.UID), reason}
	last := r.jobs[k]
	failures := 0
	if last != nil {
		if !last.isEnded() || r.now().Before(last.retry) {
			return last
		}
		failures = last.failures
	}
	r.forget()
	if len(r.jobs) >= maxJobs {
		return nil
	}
	t := &try{
		ended: make(chan struct{}), began: r.now(), kubeadm: workload.HasKubeadm(cluster),
		doing: "waiting for backups of other clusters", failures: failures,
	}
	r.jobs[k] = t
	cluster = cluster.DeepCopy()
	r.wait.Go(func() { r.run(t, cluster, reason, policy) })
	return t
}

func (t *try) isEnded() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// forget drops attempts that nobody has asked about for a while.
func (r *runner) forget() {
	for k, t := range r.jobs {
		if t.isEnded() && r.now().Sub(t.began) > rememberFor {
			delete(r.jobs, k)
		}
	}
}

// run makes one attempt.
func (r *runner) run(t *try, cluster *clusterv1.Cluster, reason string, policy Policy) {
	defer close(t.ended)
	ctx, cancel := context.WithTimeout(r.ctx, queueFor+policy.Timeout)
	defer cancel()
	m, err := r.inTurn(ctx, t, cluster, reason, policy)
	log := r.options.Log.With("cluster", cluster.Namespace+"/"+cluster.Name, "reason", reason, "duration",
		r.now().Sub(t.began).String())
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		log.Info("A backup was taken", "backup", m.Name, "bytes", m.Size, "revision", m.Revision, "keys", m.Keys)
		t.failures, t.doing = 0, verified(&m)
		return
	}
	log.Error("A backup failed", "error", err)
	t.err, t.failures = err, t.failures+1
	t.retry = r.now().Add(min(firstPause<<min(t.failures-1, 10), longestPause))
}

// inTurn takes a backup when no other replica is taking it and a slot of this process is free. If another replica has
// taken it in the meantime, inTurn returns that backup.
func (r *runner) inTurn(
	ctx context.Context, t *try, cluster *clusterv1.Cluster, reason string, policy Policy,
) (m Manifest, err error) {
	store, end, err := r.store(ctx, policy)
	if err != nil {
		return m, err
	}
	defer end()
	tell := func(doing string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		t.doing = doing
	}
	take := func(ctx context.Context) error {
		have, err := fresh(ctx, store, cluster, reason, r.now(), policy.FreshFor)
		if err != nil {
			return err
		}
		if have != nil {
			m = *have
			return nil
		}
		if err := r.initialized(ctx, cluster); err != nil {
			return err
		}
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		case <-ctx.Done():
			return fmt.Errorf("waiting for backups of other clusters: %w", context.Cause(ctx))
		}
		ctx, cancel := context.WithTimeout(ctx, policy.Timeout)
		defer cancel()
		m, err = r.take(ctx, Job{
			Namespace: cluster.Namespace, Cluster: cluster.Name, UID: string(cluster.UID), Reason: reason, Tool: r.options.Tool,
			Store: store, Retention: policy.Retention, Progress: tell,
		})
		if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			err = fmt.Errorf("it took longer than %s (setting %q): %w", policy.Timeout, settingTimeout, err)
		}
		return err
	}
	if r.options.Replicas == nil {
		err = take(ctx)
		return m, err
	}
	err = r.options.Replicas.inTurn(ctx, string(cluster.UID),
		func() { tell("waiting for another replica of the extension") }, take)
	return m, err
}

// initialized returns ErrNotInitialized for a kubeadm control plane that was never initialized. Cluster API creates a
// cluster's Secrets before its first machine, so they prove nothing.
func (r *runner) initialized(ctx context.Context, cluster *clusterv1.Cluster) error {
	ref := cluster.Spec.ControlPlaneRef
	if !workload.HasKubeadm(cluster) {
		return nil
	}
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(schema.GroupVersionKind{
		Group: ref.APIGroup, Version: workload.KubeadmControlPlane.Version, Kind: ref.Kind,
	})
	err := r.options.Reader.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, controlPlane)
	if apierrors.IsNotFound(err) {
		return nil // deleted in the meantime; the Secrets show what there is
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	if is, _, err := unstructured.NestedBool(controlPlane.Object, "status", "initialization",
		"controlPlaneInitialized"); err != nil || !is {
		return fmt.Errorf("%w: %s %s was never initialized", ErrNotInitialized, ref.Kind, ref.Name)
	}
	return nil
}

// judge converts the state of an attempt to an answer to the hook.
func (r *runner) judge(t *try, goOn bool) part.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(t.err, ErrNotInitialized), errors.Is(t.err, ErrElsewhere),
		errors.Is(t.err, ErrNoAuthority) && !t.kubeadm:
		return part.Pass(finding.Finding{Reason: ReasonNotNeeded, Message: "no backup is taken: " + t.err.Error()})
	case t.err != nil && goOn && t.failures >= tries:
		message := fmt.Sprintf("no backup was taken, %d tries failed: %v", t.failures, t.err)
		return part.Pass(finding.Finding{Reason: ReasonFailed, Message: message})
	case t.err != nil:
		message := fmt.Sprintf("backup of etcd failed (try %d) and will be retried: %v", t.failures, t.err)
		return part.Hold(t.retry.Sub(r.now()), finding.Finding{Reason: ReasonFailed, Message: message})
	case t.isEnded():
		return part.Pass(finding.Finding{Reason: ReasonVerified, Message: t.doing})
	}
	message := fmt.Sprintf("backup of etcd, running since %s: %s", t.began.UTC().Format("15:04:05 MST"), t.doing)
	return part.Hold(askAgain, finding.Finding{Reason: ReasonRunning, Message: message})
}

// takeNow takes one backup.
func (r *runner) takeNow(ctx context.Context, job Job) (m Manifest, err error) {
	if job.Access, err = ReadAccess(ctx, r.options.Reader, job.Namespace, job.Cluster); err != nil {
		return m, err
	}
	return Take(ctx, job)
}
