package capacity

import (
	"context"
	"errors"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/part"
)

const (
	// retryAfter is the time until the next call for a Cluster that does not fit.
	retryAfter = 5 * time.Second
	// retrySoon replaces retryAfter for a new Cluster. Because of the Cluster, its namespace may have requested local
	// hosts that are about to appear.
	retrySoon = time.Second
	// isNew is how long a Cluster counts as new.
	isNew = 15 * time.Second
	// admittedFor is how long the gate remembers a Cluster that it let through. Within a second, the Cluster shows that
	// it was let through. If it does not, because another extension blocks, Cluster API calls the gate again, which
	// restarts the time.
	admittedFor = time.Minute
)

// gate is the capacity gate for new Clusters, and for rollouts that temporarily need more hosts.
//
// At each call it lists what it needs from the API server, not from a cache. The answer depends on which hosts were
// claimed and which Clusters were let through a moment ago, and a cache may not show exactly these changes yet. Calls
// are rare: one per new Cluster, and one every five seconds while a Cluster waits. Lists are bounded.
//
// The gate decides one call at a time. It remembers a Cluster that it lets through until the Cluster itself shows this,
// so that two Clusters created at once do not both get the same hosts.
type gate struct {
	reader   client.Reader
	now      func() time.Time
	turn     chan struct{}            // has a value while a call is being decided
	admitted map[clusterKey]time.Time // guarded by turn
}

// clusterKey identifies a Cluster. A recreated Cluster of the same name has another key.
type clusterKey struct {
	name client.ObjectKey
	uid  string
}

func keyOf(cluster *clusterv1.Cluster) clusterKey {
	return clusterKey{name: client.ObjectKeyFromObject(cluster), uid: string(cluster.UID)}
}

func newGate(reader client.Reader) *gate {
	return &gate{reader: reader, now: time.Now, turn: make(chan struct{}, 1), admitted: map[clusterKey]time.Time{}}
}

// create lets a Cluster through if the hosts of its namespace suffice for it, and holds it back otherwise. Clusters
// whose machines are not Capstan's pass.
func (g *gate) create(ctx context.Context, cluster *clusterv1.Cluster) (answer part.Answer, err error) {
	if err := g.begin(ctx); err != nil {
		return answer, err
	}
	defer g.end()
	snapshot, err := read(ctx, g.reader, cluster.Namespace)
	if err != nil {
		return answer, err
	}
	wanted, ours, err := snapshot.wanted(ctx, cluster)
	if err != nil || !ours {
		return answer, err
	}
	g.forget()
	wanted.Admitted = g.isAdmitted(cluster)
	others, err := snapshot.others(ctx, cluster, g.isAdmitted)
	if err != nil {
		return answer, err
	}
	decision := Decide(snapshot.inventory(), others, wanted)
	if !decision.Fits {
		delete(g.admitted, keyOf(cluster))
		return part.Hold(g.pause(cluster, snapshot.hosts, wanted), decision.Finding), nil
	}
	g.admitted[keyOf(cluster)] = g.now()
	return part.Pass(decision.Finding), nil
}

// pause returns the time until the next call for a Cluster that does not fit.
func (g *gate) pause(cluster *clusterv1.Cluster, hosts []Host, wanted Cluster) time.Duration {
	free := 0
	for _, h := range hosts {
		if h.State == Free {
			free++
		}
	}
	if age := g.now().Sub(cluster.CreationTimestamp.Time); age >= 0 && age < isNew && free < total(wanted.Needs) {
		return retrySoon
	}
	return retryAfter
}

// begin waits until no other call is being decided. The caller must call end afterwards.
func (g *gate) begin(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.New("counting hosts for other clusters took too long: the management cluster may be overloaded")
	}
}

func (g *gate) end() { <-g.turn }

func (g *gate) isAdmitted(cluster *clusterv1.Cluster) bool {
	_, ok := g.admitted[keyOf(cluster)]
	return ok
}

func (g *gate) forget() {
	for key, since := range g.admitted {
		if g.now().Sub(since) > admittedFor {
			delete(g.admitted, key)
		}
	}
}
