package local

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestHostOf(t *testing.T) {
	notReady := []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse,
		Message: "waits\nfor " + strings.Repeat("x", 100)}}
	for name, c := range map[string]struct {
		host infrav1.CapstanHost
		want Host
	}{
		"a free host": {
			infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Zone: "a"},
				Status: infrav1.CapstanHostStatus{Phase: infrav1.HostOff}},
			Host{State: "Off", Zone: "a"},
		},
		"a claimed host": {
			infrav1.CapstanHost{
				Spec: infrav1.CapstanHostSpec{Claim: &infrav1.HostClaim{Cluster: "demo", Machine: "m",
					KubernetesVersion: "v1.36.3"}},
				Status: infrav1.CapstanHostStatus{Agent: &infrav1.AgentReport{Address: "10.0.0.1"}},
			},
			Host{Cluster: "demo", Machine: "m", Version: "v1.36.3", Address: "10.0.0.1"},
		},
		"a host that is not ready, in one line": {
			infrav1.CapstanHost{Status: infrav1.CapstanHostStatus{Conditions: notReady}},
			Host{Reason: "waits for " + strings.Repeat("x", 69) + "…"},
		},
		"a host that is out of use": {
			infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Unschedulable: true}},
			Host{Reason: "unschedulable"},
		},
		"a host that is being drained": {
			infrav1.CapstanHost{
				Spec: infrav1.CapstanHostSpec{Drain: true},
				Status: infrav1.CapstanHostStatus{Conditions: []metav1.Condition{{
					Type: infrav1.DrainedCondition, Status: metav1.ConditionFalse, Message: "Machine w",
				}}},
			},
			Host{Reason: "being drained: Machine w"},
		},
		"a local host in maintenance, which is off": {
			infrav1.CapstanHost{Spec: infrav1.CapstanHostSpec{Maintenance: "new disks"}},
			Host{Reason: "in maintenance: new disks"},
		},
		"a host that reports facts": {
			infrav1.CapstanHost{Status: infrav1.CapstanHostStatus{Agent: &infrav1.AgentReport{
				Kernel: "6.12", Disks: []infrav1.HostDisk{{SizeGiB: 1}, {SizeGiB: 2}},
			}}},
			Host{Facts: Facts{Kernel: "6.12", DisksGiB: 3}},
		},
		"a host that is not ready and out of use": {
			infrav1.CapstanHost{
				Spec:   infrav1.CapstanHostSpec{Unschedulable: true},
				Status: infrav1.CapstanHostStatus{Conditions: notReady},
			},
			Host{Reason: "waits for " + strings.Repeat("x", 69) + "…"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hostOf(&c.host); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestHostsAreThoseOfANamespace(t *testing.T) {
	host := func(namespace, name string) client.Object {
		return &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	c := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(host("default", "b"), host("default", "a"),
		host("other", "c")).Build()
	hosts, err := Hosts(t.Context(), c, "default")
	if err != nil || len(hosts) != 2 || hosts[0].Name != "a" || hosts[1].Name != "b" {
		t.Errorf("got %+v, %v", hosts, err)
	}
	none, err := Hosts(t.Context(), c, "empty")
	if err != nil || none == nil || len(none) != 0 {
		t.Errorf("a namespace without hosts has %+v, error %v; want an empty list that is not null in JSON", none, err)
	}
	broken := interceptor.NewClient(fake.NewClientBuilder().WithScheme(NewScheme()).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no answer")
		},
	})
	if _, err := Hosts(t.Context(), broken, "default"); err == nil || hint.Of(err) != "run: capstan status" {
		t.Errorf("error %v, with the hint %q", err, hint.Of(err))
	}
}

func TestCountSettled(t *testing.T) {
	if got := countSettled(inPhase("", infrav1.HostEnrolling, infrav1.HostOff, infrav1.HostAvailable)); got != 2 {
		t.Errorf("%d hosts are settled, want 2", got)
	}
}
