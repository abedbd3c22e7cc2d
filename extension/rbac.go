package extension

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/workload"
)

// ClusterRole returns all rights that the extension needs (rule RX-36 of the Runtime SDK contract).
// config/extension/rbac.yaml contains the same.
//
// The extension may read any Secret, which is a lot. The names of the Secrets with a workload cluster's kubeconfig and,
// for backups, its authorities are not known before the Cluster exists, and a role cannot say "all that end in
// -kubeconfig". Without the verbs list and watch, it can read a Secret only by a known name. To grant less, bind the
// rule about Secrets by Roles with resourceNames, or switch off the parts that access workload clusters.
func ClusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "capstan-extension"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"capstanhosts"}, Verbs: []string{"list"}},
			{
				APIGroups: []string{infrav1.GroupVersion.Group},
				Resources: []string{"capstanclustertemplates", "capstanmachinetemplates"}, Verbs: []string{"get"},
			},
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
