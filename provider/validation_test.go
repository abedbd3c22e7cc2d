//go:build linux

package provider

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestValidation checks on a real API server that the rules in our types ensure what the reconcilers rely on.
func TestValidation(t *testing.T) {
	env := startAPI(t)
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(env.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	host := func(claim *infrav1.HostClaim) *infrav1.CapstanHost {
		return &infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: "zone-a", Claim: claim}}
	}
	claimed := func(released bool) *infrav1.HostClaim {
		return &infrav1.HostClaim{
			Machine: "m", MachineUID: "1", Cluster: "demo", ProviderID: "p", Hostname: "m", Released: released,
		}
	}
	addresses := func(typesAndAddresses ...string) func(client.Object) {
		return func(o client.Object) {
			for pair := range slices.Chunk(typesAndAddresses, 2) {
				o.(*infrav1.CapstanHost).Spec.Addresses = append(o.(*infrav1.CapstanHost).Spec.Addresses,
					infrav1.HostAddress{Type: infrav1.HostAddressType(pair[0]), Address: pair[1]})
			}
		}
	}
	endpoint := clusterv1.APIEndpoint{Host: "10.231.16.1", Port: 6443}
	for name, c := range map[string]struct {
		object client.Object
		change func(client.Object)
		fails  string // empty: the change is accepted
	}{
		"a claim can be set and cleared": {object: host(claimed(false)), change: func(o client.Object) {
			o.(*infrav1.CapstanHost).Spec.Claim = nil
			o.(*infrav1.CapstanHost).Spec.Epoch++
		}},
		"a claim can't be cleared without the end of its epoch": {
			object: host(claimed(false)), fails: "grows by one",
			change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Claim = nil },
		},
		"an epoch can't end while the claim stays": {
			object: host(claimed(false)), fails: "grows by one",
			change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Epoch++ },
		},
		"an epoch can't end on a free host": {
			object: host(nil), change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Epoch++ }, fails: "grows by one",
		},
		"an epoch can't be skipped": {object: host(claimed(true)), change: func(o client.Object) {
			o.(*infrav1.CapstanHost).Spec.Claim = nil
			o.(*infrav1.CapstanHost).Spec.Epoch += 2
		}, fails: "grows by one"},
		"an epoch can't go back": {
			object: &infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: "zone-a", Epoch: 2}}, fails: "grows by one",
			change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Epoch = 1 },
		},
		"a claim can be released": {
			object: host(claimed(false)), change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Claim.Released = true },
		},
		"a claim can't pass to another machine": {
			object: host(claimed(false)), fails: "clear it first",
			change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Claim.MachineUID = "2" },
		},
		"a released claim can't be taken back": {
			object: host(claimed(true)), fails: "can't be taken back",
			change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Claim.Released = false },
		},
		"a host can't change its zone": {
			object: host(nil), fails: "zone can't be changed",
			change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Zone = "zone-b" },
		},
		"a host can have addresses": {object: host(nil), change: addresses(
			"ExternalIP", "198.51.100.7", "ExternalIP", "2001:db8::7", "ExternalDNS", "a-1.example.com", "InternalDNS", "a")},
		"an external IP can't be a name": {
			object: host(nil), fails: "IP address", change: addresses("ExternalIP", "a.example.com"),
		},
		"a DNS name can't be an IP address": {
			object: host(nil), fails: "DNS name", change: addresses("ExternalDNS", "198.51.100.7"),
		},
		"a DNS name can't have other characters": {object: host(nil), fails: "DNS name",
			change: addresses("InternalDNS", "a_b/c")},
		"an internal IP can't be set, because the agent reports it": {
			object: host(nil), fails: "Unsupported value", change: addresses("InternalIP", "a"),
		},
		"an address can't be listed twice": {
			object: host(nil), fails: "Duplicate", change: addresses("InternalDNS", "a", "InternalDNS", "a"),
		},
		"an owned host can't become a supplied one": {
			object: host(nil), fails: "supplier", change: func(o client.Object) {
				o.(*infrav1.CapstanHost).Spec.Supplier = infrav1.SupplierDock
			},
		},
		"a supplied host can't become an owned one": {
			object: &infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: "zone-a", Supplier: infrav1.SupplierDock}},
			fails:  "supplier",
			change: func(o client.Object) { o.(*infrav1.CapstanHost).Spec.Supplier = "" },
		},
		"a provider id can be set": {
			object: &infrav1.CapstanMachine{}, change: func(o client.Object) {
				o.(*infrav1.CapstanMachine).Spec.ProviderID = "p"
			},
		},
		"a provider id can't be changed (IM-10)": {
			object: &infrav1.CapstanMachine{Spec: infrav1.CapstanMachineSpec{ProviderID: "p"}},
			fails:  "providerID can't be changed",
			change: func(o client.Object) { o.(*infrav1.CapstanMachine).Spec.ProviderID = "q" },
		},
		"a provider id can't be taken away": {
			object: &infrav1.CapstanMachine{Spec: infrav1.CapstanMachineSpec{ProviderID: "p"}},
			fails:  "providerID can't be changed",
			change: func(o client.Object) { o.(*infrav1.CapstanMachine).Spec.ProviderID = "" },
		},
		"a type of balancer can't be changed": {
			object: &infrav1.CapstanCluster{
				Spec: infrav1.CapstanClusterSpec{LoadBalancer: infrav1.LoadBalancer{Type: infrav1.LoadBalancerLocal}},
			},
			change: func(o client.Object) {
				o.(*infrav1.CapstanCluster).Spec.LoadBalancer.Type = infrav1.LoadBalancerExternal
			}, fails: "type can't be changed",
		},
		"a type of balancer can't be taken away": {
			object: &infrav1.CapstanCluster{
				Spec: infrav1.CapstanClusterSpec{LoadBalancer: infrav1.LoadBalancer{Type: infrav1.LoadBalancerLocal}},
			},
			change: func(o client.Object) { o.(*infrav1.CapstanCluster).Spec.LoadBalancer.Type = "" },
			fails:  "type can't be changed",
		},
		"an endpoint can be set": {
			object: &infrav1.CapstanCluster{}, change: func(o client.Object) {
				o.(*infrav1.CapstanCluster).Spec.ControlPlaneEndpoint = endpoint
			},
		},
		"an endpoint can't be changed": {
			object: &infrav1.CapstanCluster{Spec: infrav1.CapstanClusterSpec{ControlPlaneEndpoint: endpoint}},
			fails:  "controlPlaneEndpoint can't be changed",
			change: func(o client.Object) { o.(*infrav1.CapstanCluster).Spec.ControlPlaneEndpoint.Port = 443 },
		},
		"an endpoint can't be taken away": {
			object: &infrav1.CapstanCluster{Spec: infrav1.CapstanClusterSpec{ControlPlaneEndpoint: endpoint}},
			fails:  "controlPlaneEndpoint can't be changed",
			change: func(o client.Object) { o.(*infrav1.CapstanCluster).Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.object.SetNamespace("default")
			c.object.SetGenerateName("x-")
			if err := api.Create(t.Context(), c.object); err != nil {
				t.Fatal(err)
			}
			c.change(c.object)
			err := api.Update(t.Context(), c.object)
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("the change gave %v, want %q", err, c.fails)
			}
		})
	}
}
