package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestPlanDomains(t *testing.T) {
	now := metav1.Now()
	free := func(zone string) infrav1.CapstanHost {
		h := infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: zone}}
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}}
		return h
	}
	leaving := func(zone string) infrav1.CapstanHost {
		h := free(zone)
		h.DeletionTimestamp = &now
		return h
	}
	taken := func(zone string) infrav1.CapstanHost {
		h := free(zone)
		h.Spec.Claim = &infrav1.HostClaim{}
		return h
	}
	for name, c := range map[string]struct {
		hosts []infrav1.CapstanHost
		want  string // a zone with a star can carry another control plane machine
	}{
		"no hosts":                       {},
		"sorted and each once (IC-20)":   {[]infrav1.CapstanHost{free("b"), free("a"), free("b")}, "a* b*"},
		"a host that leaves counts none": {[]infrav1.CapstanHost{leaving("a"), free("b"), leaving("b")}, "b*"},
		"a full zone offers no more":     {[]infrav1.CapstanHost{taken("a"), taken("b"), free("b"), taken("b")}, "a b*"},
		"all are full":                   {[]infrav1.CapstanHost{taken("a"), taken("b")}, "a b"},
		"a host that is not Ready":       {[]infrav1.CapstanHost{{Spec: infrav1.CapstanHostSpec{Zone: "a"}}, free("b")}, "a b*"},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, d := range planDomains(c.hosts) {
				if ptr.Deref(d.ControlPlane, false) {
					d.Name += "*"
				}
				names = append(names, d.Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestConclude(t *testing.T) {
	now := metav1.Now()
	domains := []clusterv1.FailureDomain{{Name: "a"}}
	for name, c := range map[string]struct {
		scope       scope
		deleting    bool
		ready       string
		message     string
		provisioned bool
	}{
		"waiting for the endpoint (IC-18)": {scope: scope{problem: &problem{infrav1.WaitingForEndpointReason, "set it"}}, ready: "False WaitingForEndpoint", message: "set it"},
		"provisioned (IC-50, IC-51)":       {scope: scope{done: true, domains: domains}, ready: "True Ready", provisioned: true},
		"being deleted (IC-28)":            {scope: scope{leaving: "2 machines are left"}, deleting: true, ready: "False Deleting", message: "2 machines"},
		"a deletion that fails (IC-54)":    {scope: scope{problem: &problem{infrav1.EndpointFailedReason, "dock is down"}}, deleting: true, ready: "False Deleting", message: "dock is down"},
	} {
		t.Run(name, func(t *testing.T) {
			o := &infrav1.CapstanCluster{}
			if c.deleting {
				o.DeletionTimestamp = &now
			}
			c.scope.capstan = o
			conclude(&c.scope)
			ready := conditions.Get(o, infrav1.ReadyCondition)
			if ready == nil || string(ready.Status)+" "+ready.Reason != c.ready || !strings.Contains(ready.Message, c.message) {
				t.Errorf("Ready is %+v", ready)
			}
			if ptr.Deref(o.Status.Initialization.Provisioned, false) != c.provisioned || c.provisioned != (len(o.Status.FailureDomains) == 1) {
				t.Errorf("status %+v", o.Status)
			}
		})
	}
}

func TestProvisionedStays(t *testing.T) {
	o := &infrav1.CapstanCluster{}
	conclude(&scope{capstan: o, done: true, domains: []clusterv1.FailureDomain{{Name: "a"}}})
	conclude(&scope{capstan: o, problem: &problem{infrav1.EndpointFailedReason, "dock is down"}})
	if !ptr.Deref(o.Status.Initialization.Provisioned, false) || len(o.Status.FailureDomains) != 1 || conditions.IsTrue(o, infrav1.ReadyCondition) {
		t.Errorf("a broken endpoint must show in Ready only (IC-23): %+v", o.Status)
	}
}
