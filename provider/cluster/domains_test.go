package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestPlanDomains(t *testing.T) {
	now := metav1.Now()
	free := func(zone string) infrav1.CapstanHost {
		h := infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: zone}}
		h.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue}}
		return h
	}
	unready := func(zone string) infrav1.CapstanHost {
		return infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: zone}}
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
		"a host that is not Ready":       {[]infrav1.CapstanHost{unready("a"), free("b")}, "a b*"},
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
