package record

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// Each hook logs a line with the Cluster and makes no Cluster wait.
func TestHandlers(t *testing.T) {
	var log bytes.Buffer
	e := hooktest.Start(t, Handlers(slog.New(slog.NewTextHandler(&log, nil)))...)
	cluster := *sample.Cluster()
	calls := []struct {
		want string
		call func() (runtimehooksv1.ResponseObject, error)
	}{
		{"The control plane answers for the first time", func() (runtimehooksv1.ResponseObject, error) {
			return hooktest.CallOne(t, e, hook.AfterControlPlaneInitialized, "record-initialized",
				&runtimehooksv1.AfterControlPlaneInitializedRequest{Cluster: cluster})
		}},
		{"The control plane has reached a version", func() (runtimehooksv1.ResponseObject, error) {
			return hooktest.CallOne(t, e, hook.AfterControlPlaneUpgrade, "record-control-plane",
				&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: cluster, KubernetesVersion: sample.To})
		}},
		{"The workers have reached a version", func() (runtimehooksv1.ResponseObject, error) {
			return hooktest.CallOne(t, e, hook.AfterWorkersUpgrade, "record-workers",
				&runtimehooksv1.AfterWorkersUpgradeRequest{Cluster: cluster, KubernetesVersion: sample.To})
		}},
		{"An upgrade has ended", func() (runtimehooksv1.ResponseObject, error) {
			return hooktest.CallOne(t, e, hook.AfterClusterUpgrade, "record-upgrade",
				&runtimehooksv1.AfterClusterUpgradeRequest{Cluster: cluster, KubernetesVersion: sample.To})
		}},
		{"A cluster is being deleted", func() (runtimehooksv1.ResponseObject, error) {
			return hooktest.CallOne(t, e, hook.BeforeClusterDelete, "record-delete",
				&runtimehooksv1.BeforeClusterDeleteRequest{Cluster: cluster})
		}},
	}
	for _, c := range calls {
		log.Reset()
		response, err := c.call()
		if err != nil || response.GetMessage() != "" {
			t.Errorf("%s: %+v, %v", c.want, response, err)
		}
		line := log.String()
		for _, part := range []string{c.want, "cluster=" + cluster.Namespace + "/" + cluster.Name} {
			if !strings.Contains(line, part) {
				t.Errorf("the log has %q, want %q", line, part)
			}
		}
		if strings.Contains(c.want, "version") && !strings.Contains(line, "version="+sample.To) {
			t.Errorf("the log has %q, want version %s", line, sample.To)
		}
	}
}
