package controllers

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// seenFor is how long a Cluster is remembered. While a connection exists, the cluster cache looks at its Cluster every
// ten seconds.
const seenFor = 10 * time.Minute

// recreated makes the cluster cache close its connection if another Cluster takes the place of a deleted one. The cache
// learns of a deletion only if it finds no Cluster. If a health probe of the dying cluster lasts until a Cluster of the
// same name exists, the cache keeps the old connection for about 40 more seconds, until five probes have failed. For
// that time, the new cluster has a control plane but gets no workers.
type recreated struct {
	mu    sync.Mutex
	seen  map[client.ObjectKey]seen
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

type seen struct {
	uid types.UID
	at  time.Time
}

// options returns options with a queue that the cluster cache and the method same share.
func (r *recreated) options(o controller.Options) controller.Options {
	o.NewQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		queue := priorityqueue.New(name, func(opts *priorityqueue.Opts[reconcile.Request]) { opts.RateLimiter = limiter })
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queue = queue
		return queue
	}
	return o
}

// same reports whether a Cluster is the one that had this name before, or the first one. It is a filter of the cluster
// cache, which closes the connection if the filter returns false. The cache then looks at the Cluster again.
func (r *recreated) same(c *clusterv1.Cluster) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, key := time.Now(), client.ObjectKeyFromObject(c)
	before, known := r.seen[key]
	if !known {
		if r.seen == nil {
			r.seen = map[client.ObjectKey]seen{}
		}
		maps.DeleteFunc(r.seen, func(_ client.ObjectKey, s seen) bool { return now.Sub(s.at) > seenFor })
	}
	r.seen[key] = seen{c.UID, now}
	if !known || before.uid == c.UID {
		return true
	}
	if r.queue != nil {
		r.queue.Add(reconcile.Request{NamespacedName: key})
	}
	return false
}
