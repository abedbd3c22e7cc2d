package topology

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	versionutil "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestACreatedClusterHasTheAddressOfItsControlPlaneHost(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*infrav1.CapstanHost)
		host   string
		err    string
	}{
		"a free host":             {func(*infrav1.CapstanHost) {}, "rack1-01", ""},
		"one that does not exist": {func(*infrav1.CapstanHost) {}, "rack1-02", `no host "rack1-02"`},
		"one with a machine": {
			func(h *infrav1.CapstanHost) { h.Spec.Claim = &infrav1.HostClaim{} }, "rack1-01", "has a machine",
		},
		"one that was never online": {
			func(h *infrav1.CapstanHost) { h.Status.Agent = nil }, "rack1-01", "has not said its address",
		},
		"one without an address": {
			func(h *infrav1.CapstanHost) { h.Status.Agent.Address = "" }, "rack1-01", "has not said its address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.CapstanHost{}
			host.Namespace, host.Name, host.Status.Agent = "team", "rack1-01", &infrav1.AgentReport{Address: "192.0.2.11"}
			c.change(host)
			r := demo
			r.ControlPlaneHost = c.host
			s := server(t, 2, host)
			err := Create(t.Context(), s, r)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, v := range stored(t, s).Spec.Topology.Variables {
				got[v.Name] = string(v.Value.Raw)
			}
			if got["endpoint"] != `{"host":"192.0.2.11","port":6443}` || got["podNetwork"] != `"capstan"` ||
				got["workerHosts"] != `{"`+infrav1.EnrolledLabel+`":"true"}` {
				t.Errorf("its variables are %v", got)
			}
			if err := s.Get(t.Context(), client.ObjectKeyFromObject(host), host); err != nil {
				t.Fatal(err)
			}
			mark := host.Labels[infrav1.EndpointLabel]
			if mark == "" || got["controlPlaneHosts"] != `{"`+infrav1.EndpointLabel+`":"`+mark+`"}` {
				t.Errorf("the host has %v, the cluster wants %s", host.Labels, got["controlPlaneHosts"])
			}
		})
	}
}

// TestTheMarkOfAnEndpointMoves: when a cluster is deleted and recreated with its control plane on another host, the
// mark moves to that host. An existing cluster keeps its mark.
func TestTheMarkOfAnEndpointMoves(t *testing.T) {
	var hosts []client.Object
	for _, name := range []string{"rack1-01", "rack1-02"} {
		host := &infrav1.CapstanHost{}
		host.Namespace, host.Name, host.Status.Agent = "team", name, &infrav1.AgentReport{Address: "192.0.2.11"}
		hosts = append(hosts, host)
	}
	s := server(t, 2, hosts...)
	marked := func() (names []string) {
		list := &infrav1.CapstanHostList{}
		if err := s.List(t.Context(), list, client.HasLabels{infrav1.EndpointLabel}); err != nil {
			t.Fatal(err)
		}
		for _, host := range list.Items {
			names = append(names, host.Name)
		}
		return names
	}
	r := demo
	r.ControlPlaneHost = "rack1-01"
	if err := Create(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	again := r
	again.ControlPlaneHost = "rack1-02"
	if err := Create(t.Context(), s, again); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a cluster of that name exists; got %v", err)
	}
	if got := marked(); !slices.Equal(got, []string{"rack1-01"}) {
		t.Errorf("marked are %q", got)
	}
	if err := s.Delete(t.Context(), stored(t, s)); err != nil {
		t.Fatal(err)
	}
	if err := Create(t.Context(), s, again); err != nil {
		t.Fatal(err)
	}
	if got := marked(); !slices.Equal(got, []string{"rack1-02"}) {
		t.Errorf("marked are %q", got)
	}
}

func TestTheAddressOfOneHostIsForOneControlPlane(t *testing.T) {
	r := demo
	r.ControlPlaneHost, r.ControlPlane = "rack1-01", 3
	if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "one control plane machine") {
		t.Errorf("got %v", err)
	}
}

// TestAnEndpointThatIsAHostKeepsItsControlPlane: an upgrade or a larger control plane is refused, because a machine on
// another host would not have the endpoint's address. The number of workers may change.
func TestAnEndpointThatIsAHostKeepsItsControlPlane(t *testing.T) {
	host := &infrav1.CapstanHost{}
	host.Namespace, host.Name, host.Status.Agent = "team", "rack1-01", &infrav1.AgentReport{Address: "192.0.2.11"}
	s := server(t, 9, host)
	r := demo
	r.ControlPlaneHost = "rack1-01"
	if err := Create(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	at := func(endpoint string) *clusterv1.Cluster {
		t.Helper()
		cluster := stored(t, s)
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: endpoint, Port: 6443}
		return cluster
	}
	next := nextPatch(t, stored(t, s).Spec.Topology.Version)
	for what, change := range map[string]func(*clusterv1.Cluster) error{
		"an upgrade": func(c *clusterv1.Cluster) error { return Upgrade(t.Context(), s, c, next) },
		"a larger control plane": func(c *clusterv1.Cluster) error {
			_, err := Scale(t.Context(), s, c, Size{ControlPlane: ptr.To[int32](3)})
			return err
		},
	} {
		before := stored(t, s).Spec.Topology
		if err := change(at("192.0.2.11")); err == nil || !strings.Contains(err.Error(), what) ||
			!strings.Contains(err.Error(), "address of host rack1-01") {
			t.Errorf("%s: got %v", what, err)
		}
		if after := stored(t, s).Spec.Topology; !reflect.DeepEqual(before, after) {
			t.Errorf("%s has changed the topology to %+v", what, after)
		}
	}
	if _, err := Scale(t.Context(), s, at("192.0.2.11"), Size{Workers: ptr.To[int32](3)}); err != nil {
		t.Errorf("workers: %v", err)
	}
	if err := Upgrade(t.Context(), s, at("192.0.2.100"), next); err != nil {
		t.Errorf("with an endpoint of its own since: %v", err)
	}
}

// nextPatch returns the patch release after a version.
func nextPatch(t *testing.T, version string) string {
	t.Helper()
	v, err := versionutil.ParseSemantic(version)
	if err != nil {
		t.Fatal(err)
	}
	return "v" + v.WithPatch(v.Patch()+1).String()
}
