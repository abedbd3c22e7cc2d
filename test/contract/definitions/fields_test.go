package definitions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

type schema = apiextensionsv1.JSONSchemaProps

// property returns the part of a kind's schema at a path such as "spec.providerID", or nil if there is none. Several
// API versions may have a schema: property uses the newest version that the contract's label names, like core.
func property(t *testing.T, v version, kind, path string) *schema {
	t.Helper()
	d := definition(t, kind)
	served := strings.Split(d.Labels["cluster.x-k8s.io/"+string(v)], "_")
	for _, has := range d.Spec.Versions {
		if has.Name != served[len(served)-1] {
			continue
		}
		at := has.Schema.OpenAPIV3Schema
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
func want(t *testing.T, v version, kind, path, kindOf string) *schema {
	t.Helper()
	p := property(t, v, kind, path)
	if p == nil || p.Type != kindOf {
		t.Errorf("%s %s of contract %s is %+v, want type %s", kind, path, v, p, kindOf)
		return &schema{}
	}
	return p
}

// length fails the test unless the schema limits the length of a string to the range from least to most characters.
func length(t *testing.T, p *schema, least, most int64) {
	t.Helper()
	if ptr.Deref(p.MinLength, 0) != least || ptr.Deref(p.MaxLength, 0) != most {
		t.Errorf("a string may have %d to %d characters, want %d to %d",
			ptr.Deref(p.MinLength, 0), ptr.Deref(p.MaxLength, 0), least, most)
	}
}

// TestObjects checks metadata, spec and status.
func TestObjects(t *testing.T) {
	for _, v := range versions {
		for _, k := range kinds {
			t.Run(k.kind+" of "+string(v), func(t *testing.T) {
				if m := want(t, v, k.kind, "metadata", "object"); len(m.Properties) > 0 {
					t.Errorf("the schema redefines metadata: %+v", m)
				}
				want(t, v, k.kind, "apiVersion", "string")
				want(t, v, k.kind, "kind", "string")
				want(t, v, k.kind, "spec", "object")
				t.Attr("rule", k.metadata+" "+string(v))
				if k.spec != "" {
					t.Attr("rule", k.spec+" "+string(v))
				}
			})
		}
		want(t, v, "CapstanMachine", "status", "object")
		t.Attr("rule", "IM-08 "+string(v))
		want(t, v, "CapstanCluster", "status", "object")
		checkConditions(t, v, "CapstanMachine")
		t.Attr("rule", "IM-29 "+string(v))
		checkConditions(t, v, "CapstanCluster")
		t.Attr("rule", "IC-25 "+string(v))
		t.Attr("rule", "IC-26 "+string(v))
	}
}

// checkConditions checks the schema of conditions.
func checkConditions(t *testing.T, v version, kind string) {
	t.Helper()
	item := want(t, v, kind, "status.conditions", "array").Items
	if item == nil {
		return
	}
	for _, field := range []string{"type", "status", "lastTransitionTime", "reason", "message"} {
		if item.Schema.Properties[field].Type != "string" {
			t.Errorf("a condition of %s has no %s", kind, field)
		}
	}
	for _, field := range []string{"type", "status"} {
		if !slices.Contains(item.Schema.Required, field) {
			t.Errorf("%s of a condition of %s is not required", field, kind)
		}
	}
	_, severity := item.Schema.Properties["severity"]
	_, generation := item.Schema.Properties["observedGeneration"]
	if severity != (v == v1beta1) || generation != (v == v1beta2) {
		t.Errorf("a condition of %s does not have the fields of contract %s: severity %t, observedGeneration %t",
			kind, v, severity, generation)
	}
}

// TestMachine compares the schema of a machine with the fields of each contract version.
func TestMachine(t *testing.T) {
	const kind = "CapstanMachine"
	for _, v := range versions {
		id := want(t, v, kind, "spec.providerID", "string")
		length(t, id, 1, 512)
		if slices.Contains(want(t, v, kind, "spec", "object").Required, "providerID") {
			t.Error("spec.providerID is required: no machine could be made (D-06)")
		}
		t.Attr("rule", "IM-10 "+string(v))
		addresses := want(t, v, kind, "status.addresses", "array")
		t.Attr("rule", "IM-27 "+string(v))
		item := addresses.Items.Schema
		var types []string
		for _, one := range item.Properties["type"].Enum {
			types = append(types, strings.Trim(string(one.Raw), `"`))
		}
		slices.Sort(types)
		known := []string{"ExternalDNS", "ExternalIP", "Hostname", "InternalDNS", "InternalIP"}
		if item.Properties["address"].Type != "string" || !slices.Equal(types, known) {
			t.Errorf("an address is %+v, want a string and a type of %v", item, known)
		}
		t.Attr("rule", "IM-28 "+string(v))
	}
	ready := want(t, v1beta1, kind, "status.ready", "boolean")
	t.Attr("rule", "IM-19 v1beta1")
	provisioned := want(t, v1beta2, kind, "status.initialization.provisioned", "boolean")
	if n := want(t, v1beta2, kind, "status.initialization", "object").MinProperties; ptr.Deref(n, 0) != 1 {
		t.Errorf("status.initialization requires at least %d properties, want 1", ptr.Deref(n, 0))
	}
	t.Attr("rule", "IM-19 v1beta2")
	if ready.Nullable || provisioned.Nullable {
		t.Error("status.ready or status.initialization.provisioned may be null")
	}
	want(t, v1beta1, kind, "spec.failureDomain", "string")
	t.Attr("rule", "IM-14 v1beta1")
	if property(t, v1beta2, kind, "spec.failureDomain") != nil {
		t.Error("v1beta2 has spec.failureDomain")
	}
	recordBoth(t, "IM-15") // only v1beta1 has spec.failureDomain
	length(t, want(t, v1beta2, kind, "status.failureDomain", "string"), 1, 256)
	t.Attr("rule", "IM-18 v1beta2")
	want(t, v1beta1, kind, "status.failureReason", "string")
	t.Attr("rule", "IM-22 v1beta1")
	want(t, v1beta1, kind, "status.failureMessage", "string")
	t.Attr("rule", "IM-23 v1beta1")
	absent(t, v1beta1, kind, "status.initialization", "status.failureDomain")
	t.Attr("rule", "IM-37 v1beta1")
	absent(t, v1beta2, kind, "status.ready", "status.failureReason", "status.failureMessage")
	t.Attr("rule", "IM-37 v1beta2")
}

// absent fails the test if a field of the other contract exists.
func absent(t *testing.T, v version, kind string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if property(t, v, kind, path) != nil {
			t.Errorf("%s %s is not a field of contract %s", kind, path, v)
		}
	}
}

// TestCluster compares the schema of a cluster with the fields of each contract version.
func TestCluster(t *testing.T) {
	const kind = "CapstanCluster"
	for _, v := range versions {
		if slices.Contains(want(t, v, kind, "spec", "object").Required, "controlPlaneEndpoint") {
			t.Error("spec.controlPlaneEndpoint is required")
		}
		endpoint := want(t, v, kind, "spec.controlPlaneEndpoint", "object")
		host := want(t, v, kind, "spec.controlPlaneEndpoint.host", "string")
		port := want(t, v, kind, "spec.controlPlaneEndpoint.port", "integer")
		if port.Format != "int32" {
			t.Errorf("port has format %s, want int32", port.Format)
		}
		if v == v1beta2 {
			length(t, host, 1, 512)
			if ptr.Deref(port.Minimum, 0) != 1 || ptr.Deref(port.Maximum, 0) != 65535 ||
				ptr.Deref(endpoint.MinProperties, 0) != 1 || len(endpoint.Required) > 0 {
				t.Errorf("the schema allows an empty endpoint or bad ports, or requires fields: %+v, %+v", endpoint,
					port)
			}
		}
		t.Attr("rule", "IC-16 "+string(v))
	}
	want(t, v1beta1, kind, "status.ready", "boolean")
	t.Attr("rule", "IC-22 v1beta1")
	want(t, v1beta2, kind, "status.initialization.provisioned", "boolean")
	t.Attr("rule", "IC-22 v1beta2")
	want(t, v1beta1, kind, "status.failureReason", "string")
	want(t, v1beta1, kind, "status.failureMessage", "string")
	t.Attr("rule", "IC-29 v1beta1")
	checkDomains(t, kind)
	absent(t, v1beta1, kind, "status.initialization")
	absent(t, v1beta2, kind, "status.ready", "status.failureReason", "status.failureMessage")
}

// checkDomains checks the schema of failure domains: a map by name in v1beta1, and a list with the name as its key in
// v1beta2.
func checkDomains(t *testing.T, kind string) {
	t.Helper()
	old := want(t, v1beta1, kind, "status.failureDomains", "object").AdditionalProperties
	if old == nil || old.Schema.Properties["controlPlane"].Type != "boolean" ||
		old.Schema.Properties["attributes"].Type != "object" {
		t.Fatalf("failure domains are %+v, want a map with controlPlane and attributes", old)
	}
	t.Attr("rule", "IC-19 v1beta1")
	t.Attr("rule", "IC-20 v1beta1")
	domains := want(t, v1beta2, kind, "status.failureDomains", "array")
	item := domains.Items.Schema
	if ptr.Deref(domains.MinItems, 0) != 1 || ptr.Deref(domains.MaxItems, 0) != 100 ||
		item.Properties["name"].Type != "string" || item.Properties["controlPlane"].Type != "boolean" ||
		item.Properties["attributes"].Type != "object" {
		t.Errorf("failure domains are %+v, want 1 to 100 with name, controlPlane and attributes", domains)
	}
	t.Attr("rule", "IC-19 v1beta2")
	if fmt.Sprint(domains.XListMapKeys) != "[name]" || ptr.Deref(domains.XListType, "") != "map" {
		t.Errorf("failure domains are not a map with the name as key: %v", domains.XListMapKeys)
	}
	t.Attr("rule", "IC-20 v1beta2")
}

// TestTemplates compares each template with its kind.
func TestTemplates(t *testing.T) {
	for _, v := range versions {
		for _, k := range kinds {
			kind, template := strings.CutSuffix(k.kind, "Template")
			if !template {
				continue
			}
			t.Run(k.kind+" of "+string(v), func(t *testing.T) { checkTemplate(t, v, kind, k.fields) })
		}
	}
}

func checkTemplate(t *testing.T, v version, kind, fields string) {
	t.Helper()
	template := kind + "Template"
	if p := want(t, v, template, "spec", "object"); !slices.Contains(p.Required, "template") {
		t.Error("spec.template is not required")
	}
	machine := kind == "CapstanMachine"
	if machine {
		t.Attr("rule", "IMT-06 "+string(v))
	}
	if p := want(t, v, template, "spec.template", "object"); !slices.Contains(p.Required, "spec") {
		t.Error("spec.template.spec is not required")
	}
	spec, own := want(t, v, template, "spec.template.spec", "object"), want(t, v, kind, "spec", "object")
	if len(spec.Properties) == 0 {
		t.Error("spec.template.spec has no fields")
	}
	for name, p := range spec.Properties {
		if own.Properties[name].Type != p.Type {
			t.Errorf("spec.template.spec.%s has type %s, but in the kind itself %q",
				name, p.Type, own.Properties[name].Type)
		}
	}
	t.Attr("rule", fields+" "+string(v))
	metadata := want(t, v, template, "spec.template.metadata", "object")
	for name := range metadata.Properties {
		if name != "labels" && name != "annotations" {
			t.Errorf("there is spec.template.metadata.%s, want only labels and annotations", name)
		}
	}
	if machine {
		t.Attr("rule", "IMT-08 "+string(v))
	} else {
		t.Attr("rule", "ICT-06 "+string(v))
	}
}
