package cluster

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// promises records in which zone each cluster without a control plane machine is promised a host. The cache shows a
// promise only later, in the failure domains of the CapstanCluster; after a restart, promises are restored from there.
// The zero value is ready to use.
type promises struct {
	mu    sync.Mutex
	zones map[types.NamespacedName]string // by Cluster; "" if no host was left
}

// of returns the zone that this process promised a cluster. It reports false if it made no promise.
func (s *promises) of(namespace, cluster string) (string, bool) {
	where, known := s.zones[types.NamespacedName{Namespace: namespace, Name: cluster}]
	return where, known
}

// commit returns the failure domains of a cluster and records the promise in them. It also drops the promises that
// other clusters of the namespace no longer need. The caller must have held the lock since it created the picture.
func (s *promises) commit(p picture, cluster types.NamespacedName) []clusterv1.FailureDomain {
	p.promise(cluster.Name)
	maps.DeleteFunc(s.zones, func(key types.NamespacedName, _ string) bool {
		_, waits := p.promised[key.Name]
		return key.Namespace == cluster.Namespace && !waits
	})
	if where, waits := p.promised[cluster.Name]; waits {
		if s.zones == nil {
			s.zones = map[types.NamespacedName]string{}
		}
		s.zones[cluster] = where
	}
	return p.domains(cluster.Name)
}

// wanted returns what the failure domains of a cluster would be now, without making a promise.
func (p picture) wanted(cluster string) []clusterv1.FailureDomain {
	p.promised = maps.Clone(p.promised)
	p.promise(cluster)
	return p.domains(cluster)
}

// promise updates the promise to a cluster. The zone is that of the host whose address is the cluster's endpoint. If
// there is no such host, the promised zone stays the same while it has a host to spare; otherwise the promise moves to
// the zone with the most room.
func (p picture) promise(cluster string) {
	if p.started[cluster] {
		return
	}
	if zone, marked := p.endpoint(cluster); marked {
		p.promised[cluster] = zone
		return
	}
	has := p.promised[cluster]
	delete(p.promised, cluster)
	best := ""
	for _, name := range slices.Sorted(maps.Keys(p.zones)) {
		switch room := p.room(name, cluster); {
		case room <= 0:
		case name == has:
			p.promised[cluster] = has
			return
		case best == "" || room > p.room(best, cluster):
			best = name
		}
	}
	p.promised[cluster] = best
}
