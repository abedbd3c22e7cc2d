package machine

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/pool"
)

const (
	crowdSize    = 100_000
	crowdWorkers = 64
	crowdHosts   = 48 // fewer than workers, so that most machines wait and are woken
	crowdLimit   = 5 * time.Minute
)

// median returns the median.
func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// TestACrowdClaims lets 64 workers claim hosts for 100,000 machines, one host for each, with changing hosts, conflicts,
// lost answers, requests that arrive late, and a watch that lags behind. No host may have two claimants, and no machine
// two hosts. If a machine is never woken, the test runs into its time limit.
func TestACrowdClaims(t *testing.T) {
	type change struct {
		host    *infrav1.CapstanHost
		deleted bool
	}
	changes := make(chan change, crowdSize)
	api := newInventory(crowdHosts, func(host *infrav1.CapstanHost, deleted bool) { changes <- change{host, deleted} })
	hosts := pool.New(api, "")
	r := claimants(api, hosts)
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Microsecond, time.Millisecond))
	if err := hosts.Wake(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	api.faulty = true

	var watch, controller, workers sync.WaitGroup
	watch.Go(func() {
		for c := range changes {
			if c.deleted {
				hosts.Remove(c.host, false)
			} else {
				hosts.Observe(c.host)
			}
		}
	})
	claimed := make(chan string, crowdSize)
	controller.Go(func() {
		for name := range claimed {
			api.free(name)
		}
	})
	var done atomic.Int64
	var served sync.Map // the machines that have a host according to their status
	work := func() {
		for {
			request, ended := queue.Get()
			if ended {
				return
			}
			if _, has := served.Load(request.Name); has {
				queue.Done(request)
				continue
			}
			number, _ := strconv.Atoi(request.Name[1:])
			s := newcomer(number)
			end := hosts.Begin(request.NamespacedName)
			err := r.seek(t.Context(), s)
			end()
			switch {
			case err != nil:
				queue.AddRateLimited(request)
			case s.host != nil:
				queue.Forget(request)
				served.Store(request.Name, true)
				claimed <- s.host.Name
				if done.Add(1) == crowdSize {
					queue.ShutDown()
				}
			}
			queue.Done(request)
		}
	}
	for range crowdWorkers {
		workers.Go(work)
	}
	limit := time.AfterFunc(crowdLimit, queue.ShutDown)
	defer limit.Stop()
	for number := range crowdSize {
		key := types.NamespacedName{Namespace: ns, Name: "m" + strconv.Itoa(number)}
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	workers.Wait()
	close(claimed)
	controller.Wait()
	api.late.Wait()
	close(changes)
	watch.Wait()

	if n := done.Load(); n != crowdSize {
		t.Errorf("%d machines of %d have a host when the time is up", n, crowdSize)
	}
	if len(api.wrong) > 0 {
		t.Errorf("%d wrong claims, for example: %s", len(api.wrong), api.wrong[0])
	}
	t.Logf("%d writes for %d claims", api.version, len(api.claims))
}
