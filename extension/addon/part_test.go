package addon

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// journal records the Events created.
type journal struct {
	client.Writer
	mu     sync.Mutex
	events []*corev1.Event
}

func (j *journal) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, object.(*corev1.Event))
	return nil
}

// Each hook of the part works in the workload cluster: a new cluster gets its add-ons, drift is reported before an
// upgrade and corrected after it, and add-ons that cannot be applied make the Cluster wait.
func TestPart(t *testing.T) {
	there := cluster(t)
	mine := sample.Cluster()
	mine.Spec.Topology.Version = sample.From
	w, events, metrics := parttest.NewWorld(0), &journal{}, prometheus.NewRegistry()
	w.Kubeconfigs = map[string][]byte{mine.Namespace + "/" + mine.Name + "-kubeconfig": api.Kubeconfig}
	addOn := source("part", "", "", "",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: part, namespace: default}\ndata: {colour: red}\n")
	addOn.Namespace = mine.Namespace
	w.AddOns = []corev1.ConfigMap{addOn}
	p, err := New(Options{
		Reader: w, Scheme: scheme.Scheme, Events: events, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
		Now: parttest.Noon,
	})
	if err != nil {
		t.Fatal(err)
	}
	e := parttest.Serve(t, nil, p)
	after := func(want string, retry int32) {
		t.Helper()
		controlPlane, err := hooktest.CallOne(t, e, hook.AfterControlPlaneUpgrade, "add-ons-control-plane",
			&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: *mine, KubernetesVersion: sample.To})
		if err != nil || controlPlane.Message != want || controlPlane.RetryAfterSeconds != retry {
			t.Errorf("after the control plane: %+v, %v, want %s", controlPlane, err, want)
		}
	}
	colour := func() string {
		cm := &corev1.ConfigMap{}
		if err := there.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "part"}, cm); err != nil {
			t.Fatal(err)
		}
		return cm.Data["colour"]
	}

	created, err := hooktest.CallOne(t, e, hook.AfterControlPlaneInitialized, "add-ons-create",
		&runtimehooksv1.AfterControlPlaneInitializedRequest{Cluster: *mine})
	if err != nil || created.Message != "add-ons: 1 applied" || colour() != "red" {
		t.Fatalf("got %+v, %v", created, err)
	}
	changed := &corev1.ConfigMap{}
	changed.Namespace, changed.Name, changed.Data = "default", "part", map[string]string{"colour": "pink"}
	if err := there.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	before, err := hooktest.CallOne(t, e, hook.BeforeClusterUpgrade, "add-ons-before-upgrade",
		&runtimehooksv1.BeforeClusterUpgradeRequest{
			Cluster: *mine, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
		})
	if err != nil || before.Message != "add-ons: 1 changed since they were applied: ConfigMap default/part" ||
		colour() != "pink" {
		t.Errorf("got %+v, %v", before, err)
	}
	after("add-ons: 1 applied, 1 changed since they were applied, and corrected: ConfigMap default/part", 0)
	if colour() != "red" {
		t.Error("drift was not corrected")
	}
	if len(events.events) != 2 || events.events[0].Reason != ReasonDrift ||
		events.events[0].InvolvedObject.Name != mine.Name ||
		events.events[0].Message != "Objects of add-ons: 1 changed since they were applied: ConfigMap default/part" {
		t.Errorf("the Events are %+v", events.events)
	}
	if n, err := testutil.GatherAndCount(metrics, "capstan_extension_add_on_drift_total"); n != 1 || err != nil {
		t.Errorf("%d metrics of drift, %v", n, err)
	}

	w.Change(func() { w.AddOns = nil })
	after("add-ons: no ConfigMap of the namespace has label addons.capstan.dev/add-on, so what was applied stays: "+
		"ConfigMap default/part (an empty add-on removes it)", 0)
	addOn.Data = nil
	w.Change(func() { w.AddOns = []corev1.ConfigMap{addOn} })
	upgraded, err := hooktest.CallOne(t, e, hook.AfterClusterUpgrade, "add-ons-upgrade",
		&runtimehooksv1.AfterClusterUpgradeRequest{Cluster: *mine, KubernetesVersion: sample.To})
	if err != nil || upgraded.Message != "add-ons: 1 removed" {
		t.Errorf("got %+v, %v", upgraded, err)
	}
	w.Change(func() {
		w.Kubeconfigs = map[string][]byte{mine.Namespace + "/" + mine.Name + "-kubeconfig": []byte("x")}
	})
	after("add-ons: reading the kubeconfig in Secret "+mine.Namespace+"/"+mine.Name+
		"-kubeconfig: it is not a kubeconfig", 5)
}
