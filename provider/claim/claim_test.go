package claim

import (
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func host(name string, c *infrav1.HostClaim) infrav1.CapstanHost {
	return infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       infrav1.CapstanHostSpec{Zone: "zone-a", Claim: c},
	}
}

func TestNewNamesTheInstance(t *testing.T) {
	h := host("host-01", nil)
	capstan := &infrav1.CapstanMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-abc", UID: "0123456789ab"},
	}
	machine := &clusterv1.Machine{Spec: clusterv1.MachineSpec{ClusterName: "demo", Version: "v1.36.3"}}
	machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}

	h.Spec.Claim = New(&h, capstan, machine)
	want := infrav1.HostClaim{
		Machine: "demo-abc", MachineUID: "0123456789ab", Cluster: "demo", ProviderID: "capstan://default/host-01/01234567",
		Hostname: "demo-abc", KubernetesVersion: "v1.36.3", ControlPlane: true, BootstrapReady: true,
	}
	if !reflect.DeepEqual(*h.Spec.Claim, want) {
		t.Errorf("claim %+v\nwant  %+v", *h.Spec.Claim, want)
	}
	data := infrav1.InstanceData{
		InstanceID: "default/host-01/01234567", LocalHostname: "demo-abc", ProviderID: want.ProviderID, Host: "host-01",
		Zone: "zone-a",
	}
	if got := InstanceData(&h); got != data {
		t.Errorf("instance data %+v\nwant          %+v", got, data)
	}
}

func TestHeld(t *testing.T) {
	byUID := func(id string, ready, released bool) *infrav1.HostClaim {
		return &infrav1.HostClaim{MachineUID: "me", ProviderID: id, BootstrapReady: ready, Released: released}
	}
	for name, c := range map[string]struct {
		hosts      []infrav1.CapstanHost
		providerID string
		want       []string
	}{
		"no claim": {hosts: []infrav1.CapstanHost{host("a", nil)}},
		"the claim of another machine": {
			hosts: []infrav1.CapstanHost{host("a", &infrav1.HostClaim{MachineUID: "you", ProviderID: "p"})},
		},
		"a claim without provider id does not belong to a machine without one": {
			hosts: []infrav1.CapstanHost{host("a", &infrav1.HostClaim{MachineUID: "you"})},
		},
		"a claim by uid": {
			hosts: []infrav1.CapstanHost{host("a", nil), host("b", byUID("p", false, false))}, want: []string{"b"},
		},
		"a claim by name and provider id after a move, IM-63": {
			hosts: []infrav1.CapstanHost{
				host("a", &infrav1.HostClaim{Machine: "w1", MachineUID: "before the move", ProviderID: "p"}),
			},
			providerID: "p", want: []string{"a"},
		},
		"the provider id of another machine proves nothing": {
			hosts: []infrav1.CapstanHost{
				host("a", &infrav1.HostClaim{Machine: "w2", MachineUID: "you", ProviderID: "p"}),
			},
			providerID: "p",
		},
		"the name of another machine proves nothing": {
			hosts: []infrav1.CapstanHost{
				host("a", &infrav1.HostClaim{Machine: "w1", MachineUID: "you", ProviderID: "q"}),
			},
			providerID: "p",
		},
		"the name of a machine without provider id proves nothing": {
			hosts: []infrav1.CapstanHost{host("a", &infrav1.HostClaim{Machine: "w1", MachineUID: "you"})},
		},
		"a claim in another namespace": {
			hosts: []infrav1.CapstanHost{*inNamespace("other", host("a", byUID("p", true, false)))}, providerID: "p",
		},
		"the host in the machine's provider id comes first": {
			hosts:      []infrav1.CapstanHost{host("a", byUID("q", true, false)), host("b", byUID("p", false, false))},
			providerID: "p", want: []string{"b", "a"},
		},
		"a host that has its bootstrap data comes before one without": {
			hosts: []infrav1.CapstanHost{host("a", byUID("p", false, false)), host("b", byUID("q", true, false))},
			want:  []string{"b", "a"},
		},
		"a released host comes last": {
			hosts: []infrav1.CapstanHost{host("a", byUID("p", true, true)), host("b", byUID("q", false, false))},
			want:  []string{"b", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			capstan := &infrav1.CapstanMachine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w1", UID: "me"},
				Spec:       infrav1.CapstanMachineSpec{ProviderID: c.providerID},
			}
			var all []*infrav1.CapstanHost
			for i := range c.hosts {
				all = append(all, &c.hosts[i])
			}
			var got []string
			for _, h := range Held(all, capstan) {
				got = append(got, h.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("held %v, want %v", got, c.want)
			}
		})
	}
	t.Attr("rule", "SG-08")
}

func inNamespace(name string, h infrav1.CapstanHost) *infrav1.CapstanHost {
	h.Namespace = name
	return &h
}

func TestHostOf(t *testing.T) {
	for id, want := range map[string]string{
		"capstan://default/host-01/01234567": "host-01",
		"capstan://other/host-01/01234567":   "",
		"capstan://default/host-01":          "",
		"aws:///zone/instance":               "",
		"":                                   "",
	} {
		if got := HostOf(id, "default"); got != want {
			t.Errorf("%q is on host %q, want %q", id, got, want)
		}
	}
}

func TestReportsCountForTheirClaimOnly(t *testing.T) {
	h := host("host-01", &infrav1.HostClaim{ProviderID: "now"})
	if Bootstrap(&h) != nil || Cleaning(&h) != nil {
		t.Error("found a report of a host without an agent")
	}
	h.Status.Agent = &infrav1.AgentReport{
		Bootstrap: &infrav1.BootstrapReport{
			ProviderID: "before",
		}, Cleaning: &infrav1.CleaningReport{ProviderID: "before"},
	}
	if Bootstrap(&h) != nil || Cleaning(&h) != nil {
		t.Error("a report about an earlier claim was taken for this one")
	}
	h.Status.Agent.Bootstrap.ProviderID, h.Status.Agent.Cleaning.ProviderID = "now", "now"
	if Bootstrap(&h) == nil || Cleaning(&h) == nil {
		t.Error("the report about this claim was not found")
	}
}

func TestAddress(t *testing.T) {
	for reported, want := range map[string]string{
		"10.231.1.4": "10.231.1.4", "fd00::1": "fd00::1",
		"": "", "127.0.0.1": "", "0.0.0.0": "", "::": "", "169.254.1.1": "", "fe80::1%eth0": "", "10.231.1.4:6443": "",
		"api.example.com": "",
	} {
		h := host("host-01", nil)
		h.Status.Agent = &infrav1.AgentReport{Address: reported}
		if got := Address(&h); got != want {
			t.Errorf("reported %q gives %q, want %q", reported, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	const digest = "0123"
	claimIs := func(edits ...func(*infrav1.HostClaim)) *infrav1.HostClaim {
		c := &infrav1.HostClaim{Machine: "m", ProviderID: "p", Released: true}
		for _, e := range edits {
			e(c)
		}
		return c
	}
	compare := func(c *infrav1.HostClaim) { c.Proof, c.Baseline = infrav1.ProofCompare, digest }
	early := func(c *infrav1.HostClaim) { c.Proof = infrav1.ProofCompare }
	reimage := func(c *infrav1.HostClaim) { c.Proof = infrav1.ProofReimage }
	done := func(baseline string, left ...string) *infrav1.AgentReport {
		return &infrav1.AgentReport{Cleaning: &infrav1.CleaningReport{
			ProviderID: "p", Done: true, Leftovers: left, Baseline: baseline,
		}}
	}
	begun := done("")
	begun.Bootstrap = &infrav1.BootstrapReport{ProviderID: "p", Phase: infrav1.BootstrapSucceeded}
	for name, c := range map[string]struct {
		claim    *infrav1.HostClaim
		agent    *infrav1.AgentReport
		accepted string
		want     Verdict
	}{
		"an agent that has not reported": {claimIs(), nil, "", Unknown},
		"an agent that still cleans": {claimIs(),
			&infrav1.AgentReport{Cleaning: &infrav1.CleaningReport{ProviderID: "p"}}, "", Unknown},
		"nothing is left, and the claim requires no proof": {claimIs(), done(""), "", Clean},
		"something left":                                       {claimIs(), done("", "process 1 x"), "", Left},
		"a comparison that found leftovers":                    {claimIs(compare), done("", "mount /x"), "", Left},
		"a comparison with the right baseline":                 {claimIs(compare), done(digest), "", Clean},
		"a comparison with another baseline":                   {claimIs(compare), done("4567"), "", NotCompared},
		"not compared":                                         {claimIs(compare), done(""), "", NotCompared},
		"an agent that is too old to compare":                  {claimIs(early), begun, "", NotCompared},
		"a claim that ended before the machine started":        {claimIs(early), done(""), "", Clean},
		"a host that must be reinstalled":                      {claimIs(reimage), done(""), "", ToReimage},
		"a host that must be reinstalled, with leftovers":      {claimIs(reimage), done("", "mount /x"), "", Left},
		"a host that was reinstalled":                          {claimIs(reimage), done(""), "p", Clean},
		"a host that was reinstalled and is offline":           {claimIs(reimage), nil, "p", Clean},
		"leftovers that somebody accepted":                     {claimIs(compare), done("", "mount /x"), "p", Clean},
		"leftovers that somebody accepted after another claim": {claimIs(compare), done("", "mount /x"), "q", Left},
	} {
		h := host("a", c.claim)
		h.Status.Agent = c.agent
		h.Annotations = map[string]string{infrav1.AcceptAnnotation: c.accepted}
		if got := Judge(&h); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestProof(t *testing.T) {
	h := host("a", nil)
	if got := Proof(&h, infrav1.ProofCompare); got != infrav1.ProofCompare {
		t.Errorf("the proof of a host without a setting is %q", got)
	}
	h.Spec.Cleaning.Proof = infrav1.ProofReimage
	if got := Proof(&h, infrav1.ProofCompare); got != infrav1.ProofReimage {
		t.Errorf("the proof of a host with a setting is %q", got)
	}
	h.Spec.Supplier = infrav1.SupplierDock
	if got := Proof(&h, infrav1.ProofCompare); got != "" {
		t.Errorf("the proof of a supplied host is %q", got)
	}
}

func TestBundles(t *testing.T) {
	byDefault := infrav1.BundlePolicy{
		Source: infrav1.BundlesFromMirror,
		Mirror: infrav1.BundleMirror{URL: "https://mirror.example", Digests: []string{"a"}},
	}
	h := infrav1.CapstanHost{}
	got := Bundles(&h, byDefault)
	if got.Mirror.URL != "https://mirror.example" {
		t.Errorf("by default, the policy is %+v", got)
	}
	got.Mirror.Digests[0] = "b"
	if byDefault.Mirror.Digests[0] != "a" {
		t.Error("a claim shares the default's digests")
	}
	h.Spec.Bundles.Source = infrav1.BundlesFromPackages
	if got := Bundles(&h, byDefault); got.Source != infrav1.BundlesFromPackages || got.Mirror.URL != "" {
		t.Errorf("the policy of a host with the source packages is %+v", got)
	}
	h.Spec.Supplier = infrav1.SupplierDock
	if got := Bundles(&h, byDefault); got.Source != "" {
		t.Errorf("the policy of a local host is %+v", got)
	}
}
