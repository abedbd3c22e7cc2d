package restore

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestChooseBackup(t *testing.T) {
	two := []backup.Manifest{{Name: "old"}, {Name: "new"}}
	for name, c := range map[string]struct {
		all       []backup.Manifest
		ask, want string
	}{
		"the newest, if none is named": {two, "", "new"},
		"the backup that is named":     {two, "old", "old"},
		"a backup that does not exist": {two, "other", ""},
		"no backups":                   {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choose(c.all, c.ask)
			if got.Name != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Name, err, c.want)
			}
		})
	}
}

func TestControlPlaneHosts(t *testing.T) {
	host := func(name, cluster string, controlPlane, released bool) infrav1.CapstanHost {
		h := infrav1.CapstanHost{}
		h.Name = name
		h.Spec.Claim = &infrav1.HostClaim{Cluster: cluster, ControlPlane: controlPlane, Released: released}
		return h
	}
	got := controlPlaneHosts([]infrav1.CapstanHost{
		host("c", "blue", true, false),
		host("a", "blue", true, false),
		host("b", "blue", false, false),
		host("d", "green", true, false),
		host("e", "blue", true, true),
		{},
	}, "blue")
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" {
		t.Errorf("got %v", got)
	}
}

func TestDecide(t *testing.T) {
	deleted, paused := metav1.Now(), true
	host := infrav1.CapstanHost{}
	host.Name, host.Spec.Claim = "a", &infrav1.HostClaim{Machine: "m-a"}
	leaving := clusterv1.Machine{}
	leaving.DeletionTimestamp, leaving.Spec.InfrastructureRef.Name = &deleted, "m-a"
	all, member := []infrav1.CapstanHost{host}, map[string]bool{"a": true}
	good := World{Hosts: all, Members: member}
	for name, c := range map[string]struct {
		change func(*clusterv1.Cluster)
		world  World
		want   string
	}{
		"a host with etcd": {nil, good, ""},
		"a cluster that is being deleted": {func(c *clusterv1.Cluster) { c.DeletionTimestamp = &deleted }, good,
			"being deleted"},
		"a cluster that is paused": {func(c *clusterv1.Cluster) { c.Spec.Paused = &paused }, good, "is paused"},
		"no host":                  {nil, World{}, "no control plane host"},
		"no host with etcd":        {nil, World{Hosts: all}, "no place to go"},
		"the machine of the only host with etcd is being deleted": {nil,
			World{Hosts: all, Members: member, Machines: []clusterv1.Machine{leaving}}, "no place to go"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Name = "blue"
			if c.change != nil {
				c.change(cluster)
			}
			c.world.Cluster = cluster
			p, err := Decide(c.world)
			if (err == nil) != (c.want == "") ||
				err != nil && (!strings.Contains(err.Error(), c.want) || hint.Of(err) == "") {
				t.Errorf("got %v, want %q and a hint", err, c.want)
			}
			if err == nil && p.First() != (Host{Name: "a", Machine: "m-a", Member: true}) {
				t.Errorf("the data would go to %+v", p.First())
			}
		})
	}
}
