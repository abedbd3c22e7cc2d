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
	// patience is how long a call waits for a backup before it blocks: that of a small cluster is done by then, and costs
	// no second call.
	patience = 5 * time.Second
	// lookTimeout bounds the look for a backup that is there already. With patience it is less than callers wait for an
	// answer.
	lookTimeout = 3 * time.Second
	// askAgain is how soon a call comes again while a backup runs.
	askAgain = 2 * time.Second
	// firstPause and longestPause are between tries that fail.
	firstPause   = 5 * time.Second
	longestPause = 2 * time.Minute
	// tries is how often a backup is tried before [Policy.GoOn] lets the cluster go on without one.
	tries = 3
	// queueFor bounds how long a try waits for backups of other clusters. It does not count as time of the try itself.
	queueFor = time.Hour
	// parallel is how many backups one process takes at the same time, of different clusters.
	parallel = 2
	// maxJobs bounds how many clusters are remembered.
	maxJobs = 1000
	// rememberFor is how long the failures of a cluster are remembered that nobody asks about any more.
	rememberFor = time.Hour
)

// Reasons of what the part finds.
const (
	// ReasonVerified: there is a backup, and it was verified.
	ReasonVerified = "BackupVerified"
	// ReasonNotNeeded: the cluster has nothing that could be backed up from here.
	ReasonNotNeeded = "BackupNotNeeded"
	// ReasonFailed: a try failed.
	ReasonFailed = "BackupFailed"
	// ReasonRunning: a try runs.
	ReasonRunning = "BackupRunning"
	// ReasonTooMany: too many clusters wait for theirs.
	ReasonTooMany = "TooManyBackups"
	// ReasonNoPlace: backups have no place.
	ReasonNoPlace = "NoPlaceForBackups"
)

// ErrNoPlace says that nothing tells where backups are to be kept, so none are taken.
var ErrNoPlace = errors.New("there is no place to keep backups: start the extension with --backups, a directory, or " +
	"set a bucket")

// Options of the part.
type Options struct {
	// Reader reads the Secrets of clusters. Required.
	Reader client.Reader
	// Tool verifies snapshots. Without one no backup is taken, and what waits for one is told so.
	Tool Tool
	// Directory is where backups are kept, unless the policy names a bucket. Default: nowhere, see [ErrNoPlace].
	Directory string
	// Replicas makes processes take turns. Default: this is the only one.
	Replicas *Replicas
	// Log gets a line for each backup. Default: none.
	Log *slog.Logger
	// Now returns the time, for maintenance windows. Default: time.Now.
	Now func() time.Time
}

// runner takes backups that calls of hooks wait for. Make it with newRunner, and close it. A call waits for at most
// five seconds; a backup that takes longer goes on while the hook is blocked.
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

// key tells what a backup is for.
type key struct{ uid, reason string }

// try is the last try of a backup.
type try struct {
	ended    chan struct{} // closed at the end
	began    time.Time
	kubeadm  bool   // the control plane is kubeadm's, so it has authorities of its own
	doing    string // guarded by runner.mu, like all below
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

// close stops backups that run and waits for them.
func (r *runner) close() {
	r.cancel()
	r.wait.Wait()
}

// ensure makes sure that there is a fresh backup of a cluster for a reason. The Cluster goes on when there is one, or
// when none is needed. The error is [ErrNoPlace] if backups can't be kept.
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
	// What is wrong with the store is found again by the try, and counts as one.
	t := r.start(cluster, reason, policy)
	if t == nil {
		return part.Hold(askAgain, finding.Finding{
			Reason: ReasonTooMany, Message: "backups of too many clusters are waited for: this one has to wait",
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

// look finds a backup that is there already; nil if there is none.
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

// store gives where backups are kept; end must be called if there is no error.
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

// fresh finds the newest backup of a cluster for a reason, if it is fresh enough; else nil.
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

// start returns the try that runs for a cluster, and begins one if none does and it is time. It is nil if too many
// clusters wait for theirs.
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

// forget drops tries that nobody has asked for since long.
func (r *runner) forget() {
	for k, t := range r.jobs {
		if t.isEnded() && r.now().Sub(t.began) > rememberFor {
			delete(r.jobs, k)
		}
	}
}

// run is one try.
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
		log.Info("There is a backup", "backup", m.Name, "bytes", m.Size, "revision", m.Revision, "keys", m.Keys)
		t.failures, t.doing = 0, verified(&m)
		return
	}
	log.Error("A backup failed", "error", err)
	t.err, t.failures = err, t.failures+1
	t.retry = r.now().Add(min(firstPause<<min(t.failures-1, 10), longestPause))
}

// inTurn takes a backup when neither another replica nor too many others of this one do. If another replica has taken
// it meanwhile, that one counts.
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

// initialized gives ErrNotInitialized for a kubeadm control plane that never answered: Cluster API makes the Secrets of
// a cluster before its first machine.
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
		return nil // deleted meanwhile: what is there can be seen from the Secrets
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

// judge says what a try means for the hook.
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
		message := fmt.Sprintf("backup of etcd failed (try %d), is tried again: %v", t.failures, t.err)
		return part.Hold(t.retry.Sub(r.now()), finding.Finding{Reason: ReasonFailed, Message: message})
	case t.isEnded():
		return part.Pass(finding.Finding{Reason: ReasonVerified, Message: t.doing})
	}
	message := fmt.Sprintf("backup of etcd since %s: %s", t.began.UTC().Format("15:04:05 MST"), t.doing)
	return part.Hold(askAgain, finding.Finding{Reason: ReasonRunning, Message: message})
}

// takeNow takes one backup.
func (r *runner) takeNow(ctx context.Context, job Job) (m Manifest, err error) {
	if job.Access, err = ReadAccess(ctx, r.options.Reader, job.Namespace, job.Cluster); err != nil {
		return m, err
	}
	return Take(ctx, job)
}
