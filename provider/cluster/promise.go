package cluster

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// promises remember in which zone each cluster without a control plane machine was promised a host. The cache shows a
// promise late, as the failure domains of the CapstanCluster; after a restart that is where promises are found again.
// The zero value has none.
type promises struct {
	mu    sync.Mutex
	zones map[types.NamespacedName]string // by Cluster; empty: there was no host left
}

// of returns the zone that a cluster was promised by this process; false: it has not been asked for.
func (s *promises) of(namespace, cluster string) (string, bool) {
	where, known := s.zones[types.NamespacedName{Namespace: namespace, Name: cluster}]
	return where, known
}

// commit returns the failure domains of a cluster, makes the promise that they are, and forgets what clusters of the
// namespace were promised that need it no more. The caller holds the lock since the picture was made.
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

// wanted returns what the failure domains of a cluster would be now, and promises nothing.
func (p picture) wanted(cluster string) []clusterv1.FailureDomain {
	p.promised = maps.Clone(p.promised)
	p.promise(cluster)
	return p.domains(cluster)
}

// promise brings the promise of a cluster up to date. It keeps its zone while there is a host, and else gets the zone
// with the most room.
func (p picture) promise(cluster string) {
	if p.started[cluster] {
		return
	}
	has := p.promised[cluster]
	delete(p.promised, cluster)
	best := ""
	for _, name := range slices.Sorted(maps.Keys(p.zones)) {
		switch room := p.room(name); {
		case room <= 0:
		case name == has:
			p.promised[cluster] = has
			return
		case best == "" || room > p.room(best):
			best = name
		}
	}
	p.promised[cluster] = best
}
