package capacity

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Each hook of the part, called over HTTPS, answers from the inventory: a Cluster without hosts waits, and goes on as
// soon as there are some.
func TestPart(t *testing.T) {
	w := parttest.NewWorld(2)
	cluster := surging(w, 2)
	w.Deployments = []clusterv1.MachineDeployment{deployment("md", "", 2, "")}
	young := parttest.NewCluster("young", 1, 0)
	e := parttest.Serve(t, nil, New(w))
	ask := func(t *testing.T, handler string) runtimehooksv1.RetryResponseObject {
		t.Helper()
		var response runtimehooksv1.RetryResponseObject
		var err error
		switch handler {
		case "capacity":
			response, err = hooktest.CallOne(t, e, hook.BeforeClusterCreate, handler,
				&runtimehooksv1.BeforeClusterCreateRequest{Cluster: young})
		case "capacity-control-plane":
			response, err = hooktest.CallOne(t, e, hook.BeforeControlPlaneUpgrade, handler,
				&runtimehooksv1.BeforeControlPlaneUpgradeRequest{
					Cluster: cluster, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
				})
		case "capacity-workers":
			response, err = hooktest.CallOne(t, e, hook.BeforeWorkersUpgrade, handler,
				&runtimehooksv1.BeforeWorkersUpgradeRequest{
					Cluster: cluster, FromKubernetesVersion: sample.From, ToKubernetesVersion: sample.To,
				})
		}
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	subjects := map[string]string{
		"capacity": "cluster", "capacity-control-plane": "upgrade of the control plane",
		"capacity-workers": "upgrade of workers",
	}
	for handler, subject := range subjects {
		want := subject + " needs 1 host, 0 of 2 are free (2 claimed"
		if got := ask(t, handler); got.GetRetryAfterSeconds() != 5 || !strings.HasPrefix(got.GetMessage(), want) {
			t.Errorf("%s without a host: %+v, want %s", handler, got, want)
		}
	}
	w.Change(func() {
		w.Hosts = append(w.Hosts, parttest.NewWorld(9).Hosts...)
	})
	for handler, subject := range subjects {
		want := subject + " needs 1 host, "
		if got := ask(t, handler); got.GetRetryAfterSeconds() != 0 || !strings.HasPrefix(got.GetMessage(), want) {
			t.Errorf("%s with hosts: %+v, want %s", handler, got, want)
		}
	}
}
