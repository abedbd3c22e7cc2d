package clusterctl

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestHostsThatKeepAMoveFromStarting: local hosts, and hosts whose agents are not handed over, block a move.
func TestHostsThatKeepAMoveFromStarting(t *testing.T) {
	host := func(name, supplier string, claimed bool, handedOver string) infrav1.CapstanHost {
		h := infrav1.CapstanHost{}
		h.Name, h.Namespace, h.UID, h.Spec.Supplier = name, "blue", types.UID("uid-"+name), supplier
		if claimed {
			h.Spec.Claim = &infrav1.HostClaim{Cluster: "c1"}
		}
		if handedOver != "" {
			h.Annotations = map[string]string{infrav1.HandedOverAnnotation: handedOver}
		}
		return h
	}
	for name, c := range map[string]struct {
		hosts       []infrav1.CapstanHost
		local, held string
	}{
		"no hosts": {},
		"free hosts": {
			hosts: []infrav1.CapstanHost{host("a", "", false, ""), host("b", infrav1.SupplierDock, false, "")},
		},
		"a local host": {
			hosts: []infrav1.CapstanHost{host("a", infrav1.SupplierDock, true, "uid-a")}, local: "a (cluster c1)",
		},
		"an agent that was handed over": {hosts: []infrav1.CapstanHost{host("a", "", true, "uid-a")}},
		"an agent that was not handed over": {
			hosts: []infrav1.CapstanHost{host("a", "", true, "uid-a"), host("b", "", true, "")},
			held:  "-n blue capstanhost b infrastructure.capstan.dev/handed-over=uid-b",
		},
		"an annotation from an earlier move": {
			hosts: []infrav1.CapstanHost{host("a", "", true, "other")}, held: "handed-over=uid-a",
		},
		"a free host and a host that was handed over": {
			hosts: []infrav1.CapstanHost{host("a", "", true, "uid-a"), host("b", "", false, "")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(err error, want string) {
				t.Helper()
				if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			check(local(c.hosts), c.local)
			if c.local == "" {
				if got := strings.Join(vouch(c.hosts), "\n"); (got != "") != (c.held != "") || !strings.Contains(got, c.held) {
					t.Errorf("got %q, want %q", got, c.held)
				}
			}
		})
	}
}
