package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contracts are the contract versions that Cluster API v1.14 understands, best first.
var contracts = []string{"v1beta2", "v1beta1"}

// apiVersions finds the API version of a kind from the contract labels of its CustomResourceDefinition. Conversion
// needs it, because references contain a version in v1beta1 but not in v1beta2.
type apiVersions struct{ reader client.Reader }

// latest returns the group and version that serves the highest contract.
func (a apiVersions) latest(ctx context.Context, gk schema.GroupKind) (string, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition",
	})
	if err := a.reader.Get(ctx, client.ObjectKey{Name: contract.CalculateCRDName(gk.Group, gk.Kind)}, crd); err != nil {
		return "", fmt.Errorf("reading the definition of %s: %w", gk, err)
	}
	v := pickVersion(crd.Labels)
	if v == "" {
		return "", fmt.Errorf("the definition %s has no label %s/%s: it serves no contract of Cluster API", crd.Name,
			clusterv1.GroupVersion.Group, contracts[0])
	}
	return schema.GroupVersion{Group: gk.Group, Version: v}.String(), nil
}

// pickVersion returns the highest API version for the highest contract, according to the labels of a definition, or "".
func pickVersion(labels map[string]string) string {
	for _, c := range contracts {
		if versions := labels[clusterv1.GroupVersion.Group+"/"+c]; versions != "" {
			return slices.MaxFunc(strings.Split(versions, "_"), version.CompareKubeAwareVersionStrings)
		}
	}
	return ""
}
