package restore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/internal/hint"
)

// World is the input of [Decide].
type World struct {
	Cluster *clusterv1.Cluster
	// Hosts are the hosts with control plane machines of the cluster. Machines are all machines of the cluster.
	Hosts    []infrav1.CapstanHost
	Machines []clusterv1.Machine
	// Members are the names of the hosts on which etcd is set up.
	Members map[string]bool
}

// Host is a host with a control plane machine.
type Host struct {
	// Name is the host's name. Machine is the name of the CapstanMachine that claims the host.
	Name, Machine string
	// Member reports whether etcd is set up on the host. Leaving reports whether the machine is being deleted.
	Member, Leaving bool
}

// Plan says where the data goes.
type Plan struct {
	// Hosts are the hosts with control plane machines. The first gets the data; the machines of the others are
	// replaced.
	Hosts []Host
}

// First returns the host that gets the data.
func (p Plan) First() Host { return p.Hosts[0] }

// Decide chooses the host that gets the data, or returns an error that says why a restore is not possible now. It is
// pure.
func Decide(w World) (Plan, error) {
	p := Plan{}
	for _, h := range w.Hosts {
		leaving := slices.ContainsFunc(w.Machines, func(m clusterv1.Machine) bool {
			return m.Spec.InfrastructureRef.Name == h.Spec.Claim.Machine && !m.DeletionTimestamp.IsZero()
		})
		p.Hosts = append(p.Hosts, Host{
			Name: h.Name, Machine: h.Spec.Claim.Machine, Member: w.Members[h.Name], Leaving: leaving,
		})
	}
	slices.SortStableFunc(p.Hosts, func(a, b Host) int { return a.rank() - b.rank() })
	return p, p.possible(w.Cluster)
}

// rank is higher for hosts that are less suitable for the data.
func (h Host) rank() int {
	switch {
	case !h.Member:
		return 2
	case h.Leaving:
		return 1
	}
	return 0
}

// possible returns an error if nothing can be restored now.
func (p Plan) possible(cluster *clusterv1.Cluster) error {
	describe := "see: capstan cluster describe " + cluster.Name
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return hint.Errorf(describe, "cluster %s is being deleted", cluster.Name)
	case ptr.Deref(cluster.Spec.Paused, false):
		resume := "capstan kubectl patch cluster " + cluster.Name + ` --type merge -p '{"spec":{"paused":null}}'`
		return hint.Errorf("resume it: "+resume,
			"cluster %s is paused: control plane machines would not be replaced", cluster.Name)
	case len(p.Hosts) == 0:
		return hint.Errorf(describe, "cluster %s has no control plane host", cluster.Name)
	case p.First().rank() > 0:
		return hint.Errorf(describe+"; wait until a control plane machine has joined",
			"cluster %s has no host with etcd whose machine is not being deleted: the data has no place to go", cluster.Name)
	}
	return nil
}

// choose finds a backup by name, or the newest if name is empty. The backups are sorted by time.
func choose(backups []backup.Manifest, name string) (backup.Manifest, error) {
	if len(backups) == 0 {
		return backup.Manifest{}, errors.New("it has no backup")
	}
	if name == "" {
		return backups[len(backups)-1], nil
	}
	i := slices.IndexFunc(backups, func(m backup.Manifest) bool { return m.Name == name })
	if i < 0 {
		return backup.Manifest{}, fmt.Errorf("it has no backup %q", name)
	}
	return backups[i], nil
}

// controlPlaneHosts returns the hosts with control plane machines of a cluster, sorted by name.
func controlPlaneHosts(all []infrav1.CapstanHost, cluster string) []infrav1.CapstanHost {
	var found []infrav1.CapstanHost
	for _, h := range all {
		if claim := h.Spec.Claim; claim != nil && claim.Cluster == cluster && claim.ControlPlane && !claim.Released {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, func(a, b infrav1.CapstanHost) int { return strings.Compare(a.Name, b.Name) })
	return found
}
