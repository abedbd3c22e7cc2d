package definitions

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utilcontract "sigs.k8s.io/cluster-api/util/contract"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/config/crd"
)

// version is a contract version of Cluster API. The API version that serves it has the same name.
type version string

const (
	v1beta1 version = "v1beta1"
	v1beta2 version = "v1beta2"
)

var versions = []version{v1beta1, v1beta2}

// recordBoth records a rule for both contract versions, because the assertion before the call is about both.
func recordBoth(t *testing.T, id string) {
	t.Helper()
	for _, v := range versions {
		t.Attr("rule", id+" "+string(v))
	}
}

// kinds are the kinds of the contracts. Each field has the id of the rule behind one assertion about the kind. The rule
// is recorded when the assertion is made. An empty id means that no rule requires the assertion.
var kinds = []struct {
	kind                                          string
	exists, name, scope, suffix, list             string
	extras, label, served, metadata, spec, fields string
}{
	{
		kind:   "CapstanMachine",
		exists: "IM-01", name: "IM-04", scope: "IM-05", suffix: "IM-34", list: "IM-33", extras: "IM-70",
		label: "IM-35", served: "IM-36", metadata: "IM-06", spec: "IM-07",
	},
	{
		kind:   "CapstanMachineTemplate",
		exists: "IMT-01", name: "IMT-03", scope: "IMT-04", suffix: "IMT-02", list: "IMT-10",
		extras: "IMT-09", label: "IMT-11", metadata: "IMT-05", fields: "IMT-07",
	},
	{
		kind:   "CapstanCluster",
		exists: "IC-01", name: "IC-12", scope: "IC-02", suffix: "IC-13", list: "IC-15", extras: "IC-14",
		label: "IC-08", served: "IC-09", metadata: "IC-03",
	},
	{
		kind:   "CapstanClusterTemplate",
		exists: "ICT-01", name: "ICT-08", scope: "ICT-03", suffix: "ICT-02", list: "ICT-07",
		label: "ICT-08", metadata: "ICT-03", fields: "ICT-04",
	},
}

// definitions returns our definitions by kind.
func definitions(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := crd.ForContract("")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for name, data := range files {
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := json.Unmarshal(data, d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.Kind != "CustomResourceDefinition" || d.APIVersion != "apiextensions.k8s.io/v1" {
			t.Errorf("%s holds a %s in API version %s, want a CustomResourceDefinition", name, d.Kind, d.APIVersion)
		}
		all[d.Spec.Names.Kind] = d
	}
	recordBoth(t, "IM-03")
	return all
}

// definition returns our definition of a kind.
func definition(t *testing.T, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d := definitions(t)[kind]
	if d == nil {
		t.Fatalf("there is no definition of %s", kind)
	}
	return d
}

// TestNames checks everything in a definition except fields.
func TestNames(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.kind, func(t *testing.T) {
			d := definition(t, k.kind)
			recordBoth(t, k.exists)
			recordBoth(t, k.suffix) // the definition was found by its kind
			names := d.Spec.Names
			if want := utilcontract.CalculateCRDName(infrav1.GroupVersion.Group, k.kind); d.Name != want {
				t.Errorf("the definition is named %s, want %s", d.Name, want)
			}
			recordBoth(t, k.name)
			if d.Spec.Scope != apiextensionsv1.NamespaceScoped {
				t.Errorf("the kind has the scope %s, want Namespaced", d.Spec.Scope)
			}
			recordBoth(t, k.scope)
			if names.ListKind != k.kind+"List" {
				t.Errorf("the list kind is %s, want the kind followed by List", names.ListKind)
			}
			recordBoth(t, k.list)
			checkExtras(t, d)
			if k.extras != "" {
				recordBoth(t, k.extras)
			}
		})
	}
}

// checkExtras checks category, short name, status subresource and stored version.
func checkExtras(t *testing.T, d *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	names := d.Spec.Names
	if !slices.Contains(names.Categories, "cluster-api") || len(names.ShortNames) == 0 {
		t.Errorf("names %+v: no category cluster-api, or no short name", names)
	}
	stored := 0
	for _, v := range d.Spec.Versions {
		if v.Storage {
			stored++
		}
		hasStatus := v.Subresources != nil && v.Subresources.Status != nil
		if hasStatus == strings.HasSuffix(names.Kind, "Template") {
			t.Errorf("version %s has a status subresource: %t, want the opposite", v.Name, hasStatus)
		}
		if names.Kind == "CapstanMachine" {
			t.Attr("rule", "IM-09 "+v.Name)
		}
	}
	if stored != 1 {
		t.Errorf("%d versions are stored, want 1", stored)
	}
}

// TestLabels checks the contract labels of the definitions: one for each contract, with served versions in ascending
// order, and no version under two labels (D-13).
func TestLabels(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.kind, func(t *testing.T) {
			d, under := definition(t, k.kind), map[string]string{}
			for _, contract := range versions {
				label := "cluster.x-k8s.io/" + string(contract)
				value := d.Labels[label]
				if value == "" {
					t.Errorf("there is no label %s", label)
				}
				t.Attr("rule", k.label+" "+string(contract))
				listed := strings.Split(value, "_")
				if !slices.IsSorted(listed) || len(value) > 63 {
					t.Errorf("label %s is %q, want versions in ascending order and 63 characters at most", label, value)
				}
				for _, v := range listed {
					served := func(has apiextensionsv1.CustomResourceDefinitionVersion) bool {
						return has.Name == v && has.Served
					}
					if !slices.ContainsFunc(d.Spec.Versions, served) {
						t.Errorf("label %s names version %q, which is not served", label, v)
					}
					if other := under[v]; other != "" {
						t.Errorf("version %s is under both labels %s and %s", v, other, label)
					}
					under[v] = label
				}
				if k.served != "" {
					t.Attr("rule", k.served+" "+string(contract))
				}
			}
		})
	}
}
