package cluster

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

func blocked(reason, message string) *step.Obstacle {
	return &step.Obstacle{Reason: reason, Message: message}
}

func TestSetStatus(t *testing.T) {
	now := metav1.Now()
	domains := []clusterv1.FailureDomain{{Name: "a"}}
	failed := &metav1.Condition{
		Type: infrav1.ReconciledCondition, Status: metav1.ConditionFalse, Reason: infrav1.StepFailedReason, Message: "boom",
	}
	for name, c := range map[string]struct {
		scope       scope
		deleting    bool
		ready       string
		message     string
		provisioned bool
	}{
		"waiting for the endpoint (IC-18)": {
			scope: scope{obstacle: blocked(infrav1.WaitingForEndpointReason, "set it")},
			ready: "False WaitingForEndpoint", message: "set it",
		},
		"provisioned (IC-50, IC-51)": {scope: scope{done: true, domains: domains}, ready: "True Ready", provisioned: true},
		"being deleted (IC-28)": {
			scope: scope{waiting: "2 machines are left"}, deleting: true, ready: "False Deleting", message: "2 machines",
		},
		"a deletion that fails (IC-54)": {
			scope: scope{obstacle: blocked(infrav1.EndpointFailedReason, "dock is down")}, deleting: true,
			ready: "False Deleting", message: "dock is down",
		},
		"a pass that fails": {scope: scope{failed: failed}, ready: "False StepFailed", message: "boom"},
		"a deletion whose pass fails (IC-54)": {
			scope: scope{failed: failed}, deleting: true, ready: "False Deleting", message: "boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &infrav1.CapstanCluster{}
			if c.deleting {
				o.DeletionTimestamp = &now
			}
			c.scope.capstan = o
			setStatus(&c.scope)
			ready := conditions.Get(o, infrav1.ReadyCondition)
			if ready == nil || string(ready.Status)+" "+ready.Reason != c.ready || !strings.Contains(ready.Message, c.message) {
				t.Errorf("Ready is %+v", ready)
			}
			provisioned := ptr.Deref(o.Status.Initialization.Provisioned, false)
			if provisioned != c.provisioned || c.provisioned != (len(o.Status.FailureDomains) == 1) {
				t.Errorf("status %+v", o.Status)
			}
		})
	}
	t.Attr("rule", "IC-19 v1beta2")
	t.Attr("rule", "IC-22 v1beta2")
}

func TestProvisionedStays(t *testing.T) {
	o := &infrav1.CapstanCluster{}
	setStatus(&scope{capstan: o, done: true, domains: []clusterv1.FailureDomain{{Name: "a"}}})
	setStatus(&scope{capstan: o, obstacle: blocked(infrav1.EndpointFailedReason, "dock is down")})
	provisioned := ptr.Deref(o.Status.Initialization.Provisioned, false)
	if !provisioned || len(o.Status.FailureDomains) != 1 || conditions.IsTrue(o, infrav1.ReadyCondition) {
		t.Errorf("a broken endpoint must show in Ready only (IC-23): %+v", o.Status)
	}
	t.Attr("rule", "IC-23 v1beta2")
}
