package extension

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// ClusterRole gives all rights that the extension needs (RX-36): it reads, and changes nothing. config/extension/rbac.yaml has the same.
func ClusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "capstan-extension"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"capstanhosts"}, Verbs: []string{"list"}},
			{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusters", "machines"}, Verbs: []string{"list"}},
			{APIGroups: []string{clusterv1.GroupVersion.Group}, Resources: []string{"clusterclasses"}, Verbs: []string{"get"}},
		},
	}
}
