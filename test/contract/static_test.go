//go:build linux

package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	utilcontract "sigs.k8s.io/cluster-api/util/contract"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/test/contract/rule"
)

// definition returns our CustomResourceDefinition of a kind.
func definition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	for _, crd := range shared.ours {
		if crd.Spec.Names.Kind == kind {
			return crd
		}
	}
	t.Fatalf("there is no definition of %s", kind)
	return nil
}

// property returns a part of a kind's schema in the version that serves a contract, for example "spec.providerID", and nil if there is none.
func (f form) property(t *testing.T, kind, path string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, v := range definition(t, kind).Spec.Versions {
		if v.Name != string(f.Version) {
			continue
		}
		at := v.Schema.OpenAPIV3Schema
		for _, name := range strings.Split(path, ".") {
			next, ok := at.Properties[name]
			if !ok {
				return nil
			}
			at = &next
		}
		return at
	}
	return nil
}

// want fails the test if a property does not have the type.
func (f form) want(t *testing.T, kind, path, kindOf string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	p := f.property(t, kind, path)
	if p == nil || p.Type != kindOf {
		t.Errorf("%s %s of contract %s is %+v, want type %s", kind, path, f.Version, p, kindOf)
		return &apiextensionsv1.JSONSchemaProps{}
	}
	return p
}

var kinds = []string{"CapstanMachine", "CapstanMachineTemplate", "CapstanCluster", "CapstanClusterTemplate"}

// TestDefinitions looks at what does not depend on the contract version.
func TestDefinitions(t *testing.T) {
	rule.Both(t, "IM-01", "IM-02", "IM-03", "IM-04", "IM-05", "IM-33", "IM-34", "IM-35", "IM-36", "IM-70",
		"IMT-01", "IMT-02", "IMT-03", "IMT-04", "IMT-09", "IMT-10", "IMT-11",
		"IC-01", "IC-02", "IC-08", "IC-09", "IC-10", "IC-12", "IC-13", "IC-14", "IC-15", "ICT-01", "ICT-02", "ICT-03", "ICT-07", "ICT-08")
	served, err := discovery.NewDiscoveryClientForConfig(shared.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			crd := definition(t, kind)
			names := crd.Spec.Names
			if want := utilcontract.CalculateCRDName(infrav1.GroupVersion.Group, kind); crd.Name != want {
				t.Errorf("the definition is named %s, want %s", crd.Name, want)
			}
			if crd.Spec.Scope != apiextensionsv1.NamespaceScoped {
				t.Errorf("the kind is %s", crd.Spec.Scope)
			}
			if names.ListKind != kind+"List" || !slices.Contains(names.Categories, "cluster-api") || len(names.ShortNames) == 0 {
				t.Errorf("names %+v", names)
			}
			stored := 0
			for _, v := range crd.Spec.Versions {
				if v.Storage {
					stored++
				}
				if hasStatus := v.Subresources != nil && v.Subresources.Status != nil; hasStatus == strings.HasSuffix(kind, "Template") {
					t.Errorf("version %s has a status subresource: %t", v.Name, hasStatus)
				}
				resources, err := served.ServerResourcesForGroupVersion(infrav1.GroupVersion.Group + "/" + v.Name)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind && r.Name == names.Plural && r.Namespaced }) {
					t.Errorf("the API server doesn't serve version %s", v.Name)
				}
			}
			if stored != 1 {
				t.Errorf("%d versions are stored", stored)
			}
			checkLabels(t, crd)
		})
	}
}

// checkLabels looks at the contract labels of a definition: one for each contract, with versions that are served, in ascending order, and no
// version under two labels (D-13).
func checkLabels(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	under := map[string]string{}
	for _, contract := range rule.Versions {
		label := "cluster.x-k8s.io/" + string(contract)
		versions := strings.Split(crd.Labels[label], "_")
		if !slices.IsSorted(versions) || len(crd.Labels[label]) > 63 {
			t.Errorf("label %s is %q", label, crd.Labels[label])
		}
		for _, version := range versions {
			if !slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return v.Name == version && v.Served
			}) {
				t.Errorf("label %s names version %q, which is not served", label, version)
			}
			if other := under[version]; other != "" {
				t.Errorf("version %s stands under %s and %s", version, other, label)
			}
			under[version] = label
		}
	}
}

// TestFields compares the schemas with the fields of each contract version.
func TestFields(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		rule.In(t, f.Version, "IM-06", "IM-07", "IM-08", "IM-10", "IM-14", "IM-15", "IM-18", "IM-19", "IM-22", "IM-23", "IM-27", "IM-28", "IM-29", "IM-37",
			"IMT-05", "IMT-06", "IMT-07", "IMT-08", "IC-03", "IC-16", "IC-19", "IC-20", "IC-22", "IC-25", "IC-26", "IC-29", "ICT-03", "ICT-04", "ICT-06")
		for _, kind := range kinds {
			if m := f.property(t, kind, "metadata"); m == nil || len(m.Properties) > 0 && m.Properties["name"].Type != "string" {
				t.Errorf("%s has metadata %+v", kind, m)
			}
			f.want(t, kind, "spec", "object")
			if !strings.HasSuffix(kind, "Template") {
				f.want(t, kind, "status", "object")
				f.checkConditions(t, kind)
			}
		}
		f.want(t, "CapstanMachine", "spec.providerID", "string")
		for _, path := range []string{"spec"} {
			if p := f.property(t, "CapstanMachine", path); slices.Contains(p.Required, "providerID") {
				t.Error("spec.providerID is required: no machine could be made (D-06)")
			}
		}
		addresses := f.want(t, "CapstanMachine", "status.addresses", "array")
		if item := addresses.Items.Schema; item.Properties["type"].Type != "string" || item.Properties["address"].Type != "string" {
			t.Errorf("an address is %+v", item)
		}
		for _, kind := range []string{"CapstanMachine", "CapstanCluster"} {
			f.checkTemplate(t, kind)
		}
		for field, kindOf := range map[string]string{"host": "string", "port": "integer"} {
			f.want(t, "CapstanCluster", "spec.controlPlaneEndpoint."+field, kindOf)
		}
		if p := f.property(t, "CapstanCluster", "spec"); slices.Contains(p.Required, "controlPlaneEndpoint") {
			t.Error("spec.controlPlaneEndpoint is required")
		}
		f.checkOfVersion(t)
	})
}

// checkOfVersion looks at the fields in which the contract versions differ.
func (f form) checkOfVersion(t *testing.T) {
	t.Helper()
	absent := []string{"CapstanMachine status.initialization", "CapstanCluster status.initialization", "CapstanMachine status.failureDomain"}
	if f.Version == rule.V1Beta1 {
		for _, kind := range []string{"CapstanMachine", "CapstanCluster"} {
			f.want(t, kind, "status.ready", "boolean")
			f.want(t, kind, "status.failureReason", "string")
			f.want(t, kind, "status.failureMessage", "string")
		}
		f.want(t, "CapstanMachine", "spec.failureDomain", "string")
		domains := f.want(t, "CapstanCluster", "status.failureDomains", "object")
		if domains.AdditionalProperties == nil || domains.AdditionalProperties.Schema.Properties["controlPlane"].Type != "boolean" {
			t.Errorf("failure domains are %+v, want a map", domains)
		}
	} else {
		absent = nil
		for _, kind := range []string{"CapstanMachine", "CapstanCluster"} {
			f.want(t, kind, "status.initialization.provisioned", "boolean")
			absent = append(absent, kind+" status.ready", kind+" status.failureReason", kind+" status.failureMessage", kind+" spec.failureDomain")
		}
		f.want(t, "CapstanMachine", "status.failureDomain", "string")
		domains := f.want(t, "CapstanCluster", "status.failureDomains", "array")
		if fmt.Sprint(domains.XListMapKeys) != "[name]" || domains.XListType == nil || *domains.XListType != "map" {
			t.Errorf("failure domains are no map by name: %v", domains.XListMapKeys)
		}
	}
	for _, field := range absent {
		kind, path, _ := strings.Cut(field, " ")
		if f.property(t, kind, path) != nil {
			t.Errorf("%s is of the other contract", field)
		}
	}
}

// checkConditions looks at the schema of conditions.
func (f form) checkConditions(t *testing.T, kind string) {
	t.Helper()
	item := f.want(t, kind, "status.conditions", "array").Items
	if item == nil {
		return
	}
	for _, field := range []string{"type", "status", "lastTransitionTime", "reason", "message"} {
		if item.Schema.Properties[field].Type != "string" {
			t.Errorf("a condition of %s has no %s", kind, field)
		}
	}
	_, severity := item.Schema.Properties["severity"]
	_, generation := item.Schema.Properties["observedGeneration"]
	if severity != (f.Version == rule.V1Beta1) || generation != (f.Version == rule.V1Beta2) {
		t.Errorf("a condition of %s is not of contract %s: severity %t, observedGeneration %t", kind, f.Version, severity, generation)
	}
}

// checkTemplate compares the template of a kind with the kind.
func (f form) checkTemplate(t *testing.T, kind string) {
	t.Helper()
	template := kind + "Template"
	if p := f.want(t, template, "spec", "object"); !slices.Contains(p.Required, "template") {
		t.Errorf("%s spec.template is not required", template)
	}
	if p := f.want(t, template, "spec.template", "object"); !slices.Contains(p.Required, "spec") {
		t.Errorf("%s spec.template.spec is not required", template)
	}
	spec, own := f.want(t, template, "spec.template.spec", "object"), f.want(t, kind, "spec", "object")
	for name, p := range spec.Properties {
		if own.Properties[name].Type != p.Type {
			t.Errorf("%s has spec.template.spec.%s of type %s, the kind itself of type %q", template, name, p.Type, own.Properties[name].Type)
		}
	}
	metadata := f.want(t, template, "spec.template.metadata", "object")
	for name := range metadata.Properties {
		if name != "labels" && name != "annotations" {
			t.Errorf("%s has spec.template.metadata.%s", template, name)
		}
	}
}
