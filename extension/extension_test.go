package extension

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/runtime/client"
)

// The extension behind TLS, registered with Config and called by the client that the management plane uses.
func TestExtensionIsCalled(t *testing.T) {
	w := parttest.NewWorld(2)
	handler, err := New(Options{Reader: w})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	s := httptest.NewTLSServer(handler)
	defer s.Close()
	calls, err := client.New(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer calls.Close()
	if err := calls.WarmUp(&runtimev1.ExtensionConfigList{}); err != nil {
		t.Fatal(err)
	}
	discovered, err := calls.Discover(t.Context(), Config(s.URL, certificatePEM(s)))
	if err != nil {
		t.Fatal(err)
	}
	if err := calls.Register(discovered); err != nil {
		t.Fatal(err)
	}
	for _, h := range discovered.Status.Handlers {
		policy := runtimev1.FailurePolicyFail
		if strings.HasPrefix(h.Name, "record-") { // a log that can't be written blocks nothing
			policy = runtimev1.FailurePolicyIgnore
		}
		timeout := int32(10)
		// they work in another cluster
		if strings.HasPrefix(h.Name, "add-ons-") || strings.HasPrefix(h.Name, "verification-") {
			timeout = 30
		}
		if h.Name == "add-ons-before-upgrade.capstan" { // it only reports and blocks nothing
			policy = runtimev1.FailurePolicyIgnore
		}
		if h.TimeoutSeconds != timeout || h.FailurePolicy != policy {
			t.Errorf("handler %+v", h)
		}
	}

	cluster := parttest.NewCluster("mine", 1, 2)
	created := &runtimehooksv1.BeforeClusterCreateResponse{}
	err = calls.CallAllExtensions(t.Context(), runtimehooksv1.BeforeClusterCreate, &cluster,
		&runtimehooksv1.BeforeClusterCreateRequest{Cluster: cluster}, created)
	if err != nil || created.RetryAfterSeconds != 5 ||
		!strings.HasPrefix(created.Message, "cluster needs 3 hosts, 2 of 2 are free") {
		t.Errorf("got %+v, %v", created, err)
	}
	w.Change(func() {
		w.Hosts = parttest.NewWorld(4).Hosts
		for i := range 3 { // the Cluster was created after all
			w.Hosts[i].Spec.Claim = &infrav1.HostClaim{Cluster: cluster.Name}
		}
	})
	for name, call := range map[string]struct {
		hook     any
		request  runtimehooksv1.RequestObject
		response runtimehooksv1.ResponseObject
	}{
		"AfterControlPlaneInitialized": {runtimehooksv1.AfterControlPlaneInitialized,
			&runtimehooksv1.AfterControlPlaneInitializedRequest{Cluster: cluster},
			&runtimehooksv1.AfterControlPlaneInitializedResponse{}},
		"BeforeClusterUpgrade": {runtimehooksv1.BeforeClusterUpgrade,
			&runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: cluster}, &runtimehooksv1.BeforeClusterUpgradeResponse{}},
		"BeforeControlPlaneUpgrade": {runtimehooksv1.BeforeControlPlaneUpgrade,
			&runtimehooksv1.BeforeControlPlaneUpgradeRequest{Cluster: cluster},
			&runtimehooksv1.BeforeControlPlaneUpgradeResponse{}},
		"AfterControlPlaneUpgrade": {runtimehooksv1.AfterControlPlaneUpgrade,
			&runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: cluster},
			&runtimehooksv1.AfterControlPlaneUpgradeResponse{}},
		"BeforeWorkersUpgrade": {runtimehooksv1.BeforeWorkersUpgrade,
			&runtimehooksv1.BeforeWorkersUpgradeRequest{Cluster: cluster}, &runtimehooksv1.BeforeWorkersUpgradeResponse{}},
		"AfterWorkersUpgrade": {runtimehooksv1.AfterWorkersUpgrade,
			&runtimehooksv1.AfterWorkersUpgradeRequest{Cluster: cluster}, &runtimehooksv1.AfterWorkersUpgradeResponse{}},
		"AfterClusterUpgrade": {runtimehooksv1.AfterClusterUpgrade,
			&runtimehooksv1.AfterClusterUpgradeRequest{Cluster: cluster}, &runtimehooksv1.AfterClusterUpgradeResponse{}},
		"BeforeClusterDelete": {runtimehooksv1.BeforeClusterDelete,
			&runtimehooksv1.BeforeClusterDeleteRequest{Cluster: cluster}, &runtimehooksv1.BeforeClusterDeleteResponse{}},
	} {
		handlers, err := calls.GetAllExtensions(t.Context(), call.hook, &cluster)
		if err != nil || len(handlers) == 0 {
			t.Errorf("%s: handlers are %v, %v", name, handlers, err)
		}
		if err := calls.CallAllExtensions(t.Context(), call.hook, &cluster, call.request, call.response); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if retry, ok := call.response.(runtimehooksv1.RetryResponseObject); ok && retry.GetRetryAfterSeconds() != 0 {
			t.Errorf("%s blocks", name)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewNeedsAReader(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("an extension without a Reader was made")
	}
}

func TestMapper(t *testing.T) {
	for kind, resource := range map[schema.GroupVersionKind]string{
		clusterv1.GroupVersion.WithKind("Cluster"):           "clusters",
		clusterv1.GroupVersion.WithKind("ClusterClass"):      "clusterclasses",
		clusterv1.GroupVersion.WithKind("Machine"):           "machines",
		clusterv1.GroupVersion.WithKind("MachineDeployment"): "machinedeployments",
		workload.KubeadmControlPlane:                         "kubeadmcontrolplanes",
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):      "configmaps",
		corev1.SchemeGroupVersion.WithKind("Secret"):         "secrets",
		corev1.SchemeGroupVersion.WithKind("Event"):          "events",
		infrav1.GroupVersion.WithKind("CapstanHost"):         "capstanhosts",
	} {
		mapping, err := Mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || mapping.Resource.Resource != resource || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			t.Errorf("%s: %+v, %v", kind, mapping, err)
		}
	}
}

func certificatePEM(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}
