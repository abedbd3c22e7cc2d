package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestAbandonable(t *testing.T) {
	released, held := &infrav1.HostClaim{Machine: "m", Released: true}, &infrav1.HostClaim{Machine: "m"}
	for name, c := range map[string]struct {
		supplier string
		claim    *infrav1.HostClaim
		online   metav1.ConditionStatus
		want     string
	}{
		"a dead host that a machine waits for": {claim: released, online: metav1.ConditionFalse},
		"a host that nothing is known of":      {claim: released, want: "is there"},
		"a host whose agent cleans it":         {claim: released, online: metav1.ConditionTrue, want: "wait for it"},
		"a dead host that is in use":           {claim: held, online: metav1.ConditionFalse, want: "in use by machine m"},
		"a dead host that is free":             {online: metav1.ConditionFalse, want: "no machine"},
		"a local host":                         {supplier: infrav1.SupplierDock, claim: released, online: metav1.ConditionFalse, want: "local"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.CapstanHost{}
			h.Name, h.Spec.Supplier, h.Spec.Claim = "old", c.supplier, c.claim
			if c.online != "" {
				h.Status.Conditions = []metav1.Condition{{Type: infrav1.HostOnlineCondition, Status: c.online}}
			}
			err := abandonable(h)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
