package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const (
	// leases is how many there are: a few fixed names, so that a role can name them, and clusters leave none behind.
	leases = 4

	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = time.Second
)

// Replicas makes the processes of one extension take turns, so that two that are called for the same cluster do not
// both take its backup. Clusters share few Leases by their uid: those that meet at one wait for each other.
type Replicas struct {
	// Leases reads and writes Leases: get, create and update.
	Leases coordinationv1.LeasesGetter
	// Namespace of the Leases: the same for all replicas.
	Namespace string
}

// inTurn calls do while no other replica does for the same cluster. waiting is called before. The context of do ends
// when the turn is lost, which happens if the API server can't be reached for too long.
func (r *Replicas) inTurn(ctx context.Context, uid string, waiting func(), do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard())) // the library tells each step
	defer cancel()
	turn := turn{done: make(chan struct{}), do: do, end: cancel}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: leaseOf(uid)}, Client: r.Leases,
			// Of this try, not of the process: two clusters of one process take turns like any others.
			LockConfig: resourcelock.ResourceLockConfig{Identity: uuid.NewString()},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: turn.run, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("making a Lease for backups: %w", err)
	}
	waiting()
	elector.Run(ctx)
	return turn.wait()
}

// LeaseNames are the names of all Leases that replicas use.
func LeaseNames() []string {
	names := make([]string, leases)
	for i := range names {
		names[i] = fmt.Sprint("capstan-backup-", i)
	}
	return names
}

// leaseOf gives the name of the Lease of a cluster.
func leaseOf(uid string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return LeaseNames()[h.Sum32()%leases]
}

// turn waits for a function that the elector starts in a goroutine that nobody else waits for.
type turn struct {
	do   func(context.Context) error
	end  func()
	done chan struct{}

	mu           sync.Mutex
	began, ended bool
	err          error
}

func (t *turn) run(ctx context.Context) {
	t.mu.Lock()
	late := t.ended
	t.began = true
	t.mu.Unlock()
	if late {
		return
	}
	defer close(t.done)
	defer t.end()
	t.err = t.do(ctx)
}

// wait is called when the elector has ended.
func (t *turn) wait() error {
	t.mu.Lock()
	t.ended = true
	began := t.began
	t.mu.Unlock()
	if !began {
		return errors.New("waiting for another replica of the extension to take backups took too long, or its Lease could " +
			"not be read or written")
	}
	<-t.done
	return t.err
}
