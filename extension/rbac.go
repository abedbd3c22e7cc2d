package extension

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/workload"
)

// ClusterRole gives all rights that the extension needs (RX-36). config/extension/rbac.yaml has the same.
//
// It reads Secrets, which is much: those with the kubeconfig and, for backups, the authorities of a workload cluster
// have names that are not known before there is a Cluster, and a role can't say "all that end in -kubeconfig". Without
// the verbs list and watch none can be found, only read by a name that is known. Who wants less binds the part about
// Secrets by Roles with resourceNames, or switches off the parts that go into workload clusters.
func ClusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "capstan-extension"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"capstanhosts"}, Verbs: []string{"list"}},
			{APIGroups: []string{clusterv1.GroupVersion.Group},
				Resources: []string{"clusters", "machines", "machinedeployments"}, Verbs: []string{"list"}},
			{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusterclasses"}, Verbs: []string{"get"}},
			{
				APIGroups: []string{workload.KubeadmControlPlane.Group}, Resources: []string{"kubeadmcontrolplanes"},
				Verbs: []string{"get"},
			},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}, // add-ons
			// kubeconfigs and authorities of workload clusters
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}}, // drift of add-ons
		},
	}
}
