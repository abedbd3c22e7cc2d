package backend

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestPlanBackends(t *testing.T) {
	host := func(name, address string, c infrav1.HostClaim) infrav1.CapstanHost {
		h := infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.CapstanHostSpec{Claim: &c}}
		if address != "" {
			h.Status.Agent = &infrav1.AgentReport{Address: address}
		}
		return h
	}
	cp := func(machine string) infrav1.HostClaim {
		return infrav1.HostClaim{Machine: machine, Cluster: "demo", ControlPlane: true}
	}
	for name, c := range map[string]struct {
		hosts   []infrav1.CapstanHost
		leaving map[string]bool
		port    int32
		want    []string
	}{
		"no hosts": {want: []string{}},
		"control plane machines with an address, sorted (IM-51)": {
			hosts: []infrav1.CapstanHost{host("b", "10.231.1.2", cp("m2")), host("a", "10.231.1.1", cp("m1"))},
			want:  []string{"10.231.1.1:6443", "10.231.1.2:6443"},
		},
		"the port of the cluster": {
			hosts: []infrav1.CapstanHost{host("a", "10.231.1.1", cp("m1"))}, port: 8443, want: []string{"10.231.1.1:8443"},
		},
		"an IPv6 address": {
			hosts: []infrav1.CapstanHost{host("a", "fd00::1", cp("m1"))}, want: []string{"[fd00::1]:6443"},
		},
		"a host without an address yet": {hosts: []infrav1.CapstanHost{host("a", "", cp("m1"))}, want: []string{}},
		"a worker is not a backend": {
			hosts: []infrav1.CapstanHost{host("a", "10.231.1.1", infrav1.HostClaim{Machine: "m1", Cluster: "demo"})},
			want:  []string{},
		},
		"a machine of another cluster is not a backend": {
			hosts: []infrav1.CapstanHost{
				host("a", "10.231.1.1", infrav1.HostClaim{Machine: "m1", Cluster: "x", ControlPlane: true}),
			}, want: []string{},
		},
		"a machine that is being deleted is removed at once (IM-58)": {
			hosts:   []infrav1.CapstanHost{host("a", "10.231.1.1", cp("m1")), host("b", "10.231.1.2", cp("m2"))},
			leaving: map[string]bool{"m1": true}, want: []string{"10.231.1.2:6443"},
		},
		"a released host is not a backend": {
			hosts: []infrav1.CapstanHost{
				host("a", "10.231.1.1", infrav1.HostClaim{Machine: "m1", Cluster: "demo", ControlPlane: true, Released: true}),
			},
			want: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := planBackends(c.hosts, "demo", c.leaving, c.port); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
