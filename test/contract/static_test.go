//go:build linux

package contract

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

var kinds = []string{"CapstanMachine", "CapstanMachineTemplate", "CapstanCluster", "CapstanClusterTemplate"}

// TestServedDefinitions: the API server accepts our definitions and serves what they define. Tests that need only a
// definition are in test/contract/definitions.
func TestServedDefinitions(t *testing.T) {
	served, err := discovery.NewDiscoveryClientForConfig(shared.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			i := slices.IndexFunc(shared.ours, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
				return crd.Spec.Names.Kind == kind
			})
			if i < 0 {
				t.Fatal("there is no definition")
			}
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := shared.admin.Get(t.Context(), client.ObjectKeyFromObject(shared.ours[i]), crd); err != nil {
				t.Fatal(err)
			}
			established := func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
			}
			if !slices.ContainsFunc(crd.Status.Conditions, established) {
				t.Errorf("the definition is not established: %+v", crd.Status.Conditions)
			}
			machine := kind == "CapstanMachine"
			if machine {
				recordBoth(t, "IM-03")
			}
			for _, v := range versions {
				resources, err := served.ServerResourcesForGroupVersion(infrav1.GroupVersion.Group + "/" + string(v))
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool {
					return r.Kind == kind && r.Name == crd.Spec.Names.Plural && r.Namespaced
				}) {
					t.Errorf("the API server doesn't serve version %s", v)
				}
				if machine {
					t.Attr("rule", "IM-02 "+string(v))
				}
				status := slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool {
					return r.Name == crd.Spec.Names.Plural+"/status"
				})
				if status == strings.HasSuffix(kind, "Template") {
					t.Errorf("version %s has a status subresource: %t, want the opposite", v, status)
				}
			}
		})
	}
}
