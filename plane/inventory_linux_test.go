package plane_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/plane/manifests"
)

// checkInventory checks for the objects by which clusterctl and providers' end-to-end tests find a provider.
func checkInventory(t *testing.T, ctx context.Context, c client.Client) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("clusterctl.cluster.x-k8s.io/v1alpha3")
	list.SetKind("ProviderList")
	if err := c.List(ctx, list, client.MatchingLabels{"clusterctl.cluster.x-k8s.io/core": "inventory"}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, item := range list.Items {
		got[item.GetName()], _, _ = unstructured.NestedString(item.Object, "version")
	}
	want := map[string]bool{ // true if the provider is part of Cluster API and has its version
		"cluster-api": true, "bootstrap-kubeadm": true, "control-plane-kubeadm": true, "infrastructure-capstan": false,
	}
	for name, upstream := range want {
		if version, ok := got[name]; !ok || upstream != strings.HasPrefix(version, "v1.") {
			t.Errorf("provider %s has version %q", name, version)
		}
	}
	deployments := &appsv1.DeploymentList{}
	if err := c.List(ctx, deployments, client.HasLabels{clusterv1.ProviderNameLabel}); err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		works := slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		})
		if d.Annotations[manifests.EmbeddedAnnotation] == "" || !works || d.Status.AvailableReplicas != 1 {
			t.Errorf("Deployment %s has status %+v", d.Name, d.Status)
		}
		delete(want, d.Labels[clusterv1.ProviderNameLabel])
	}
	if len(want) > 0 {
		t.Errorf("providers without a Deployment: %v", want)
	}
}
