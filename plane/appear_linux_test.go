package plane_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// appearLimit is how long upstream's end-to-end test of adopted control planes waits.
const appearLimit = 5 * time.Second

// checkControlPlaneAppears creates a Cluster before the control plane that it refers to. Without the plane's help,
// Cluster API looks again only after 30 s.
func checkControlPlaneAppears(t *testing.T, ctx context.Context, c client.Client) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "appear-"}}
	if err := c.Create(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "early"}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "late",
	}
	if err := c.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Cluster to have looked for its control plane", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		for _, condition := range cluster.Status.Conditions {
			if condition.Type == clusterv1.ClusterControlPlaneAvailableCondition {
				return nil
			}
		}
		return fmt.Errorf("the conditions of the Cluster are %+v", cluster.Status.Conditions)
	})
	late := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
		"metadata": map[string]any{"namespace": namespace.Name, "name": "late"},
		"spec": map[string]any{
			"version": "v1.36.3", "replicas": int64(1),
			"machineTemplate": map[string]any{"spec": map[string]any{"infrastructureRef": map[string]any{
				"apiGroup": "infrastructure.capstan.dev", "kind": "CapstanMachineTemplate", "name": "none",
			}}},
		},
	}}
	if err := c.Create(ctx, late); err != nil {
		t.Fatal(err)
	}
	created := time.Now()
	eventually(t, "the control plane to have the label of its Cluster", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(late), late); err != nil {
			return err
		}
		if late.GetLabels()[clusterv1.ClusterNameLabel] != "early" {
			return fmt.Errorf("the labels of the control plane are %v", late.GetLabels())
		}
		return nil
	})
	if took := time.Since(created); took > appearLimit {
		t.Errorf("the Cluster found its control plane after %s, limit %s", took.Round(time.Millisecond), appearLimit)
	}
	for _, o := range []client.Object{late, cluster} {
		if err := c.Delete(ctx, o); err != nil {
			t.Error(err)
		}
	}
}
