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
	// retryAfter is how soon a Cluster that does not fit is asked about again.
	retryAfter = 5 * time.Second
	// retrySoon is that for a Cluster that was just made: local hosts may be on their way to its namespace, which asks
	// for them because the Cluster is there.
	retrySoon = time.Second
	// isNew is how long a Cluster was just made.
	isNew = 15 * time.Second
	// admittedFor is how long the gate remembers whom it let through. Cluster API shows it on the Cluster within a second;
	// if it does not, because another extension blocks, it asks again and the time starts again.
	admittedFor = time.Minute
)

// gate is the capacity gate of new Clusters, and of rollouts that need more hosts than before for a while.
//
// It lists what it needs at each call, from the API server and not from a cache: the answer has to take into account
// which hosts were claimed and which Clusters were let through a moment ago, and a cache may lag behind just that.
// Calls are rare: one for each Cluster that is created, and one every five seconds while one waits. Lists are bounded.
//
// Calls are decided one after the other, and whom the gate lets through it remembers until that shows on the Cluster,
// so that two Clusters created at once do not both get the same hosts.
type gate struct {
	reader   client.Reader
	now      func() time.Time
	turn     chan struct{}            // held while deciding
	admitted map[clusterKey]time.Time // guarded by turn
}

// clusterKey tells a Cluster from one that had its name before.
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

// create lets a Cluster through if the hosts of its namespace can hold it, and holds it otherwise. Clusters whose
// machines are not Capstan's pass.
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
	decision := Decide(snapshot.hosts, others, wanted)
	if !decision.Fits {
		delete(g.admitted, keyOf(cluster))
		return part.Hold(g.pause(cluster, snapshot.hosts, wanted), decision.Finding), nil
	}
	g.admitted[keyOf(cluster)] = g.now()
	return part.Pass(decision.Finding), nil
}

// pause is how long a Cluster that does not fit waits until it is asked about again.
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

// begin waits until no other call is decided; end must be called then.
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
