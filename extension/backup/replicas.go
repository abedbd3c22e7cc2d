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
	// leases is the number of Leases. Their names are fixed, so that a role can list them and clusters leave none
	// behind.
	leases = 4

	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = time.Second
)

// Replicas lets the processes of one extension take turns, so that two processes called for the same cluster do not
// both take its backup. Clusters share a few Leases, chosen by UID; those that share one wait for each other.
type Replicas struct {
	// Leases reads and writes Leases. It needs the verbs get, create and update.
	Leases coordinationv1.LeasesGetter
	// Namespace is the namespace of the Leases. It must be the same for all replicas.
	Namespace string
}

// inTurn first calls the function waiting. As soon as no other replica holds the cluster's Lease, it calls the function
// do, whose context is cancelled if the Lease is lost. A Lease is lost if the API server is unreachable for too long.
func (r *Replicas) inTurn(ctx context.Context, uid string, waiting func(), do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard())) // the library logs each step
	defer cancel()
	turn := turn{done: make(chan struct{}), do: do, end: cancel}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: leaseOf(uid)}, Client: r.Leases,
			// Identify this attempt, not the process, so that two clusters of one process take turns as well.
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

// LeaseNames returns the names of all Leases that replicas use.
func LeaseNames() []string {
	names := make([]string, leases)
	for i := range names {
		names[i] = fmt.Sprint("capstan-backup-", i)
	}
	return names
}

// leaseOf returns the name of a cluster's Lease.
func leaseOf(uid string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return LeaseNames()[h.Sum32()%leases]
}

// turn waits for a function that the elector starts in a goroutine without waiting for it.
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

// wait must be called after the elector has returned.
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
