package crd

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// definition holds the fields of a CustomResourceDefinition that the tests check.
type definition struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		Names struct {
			Kind       string
			Categories []string
			ShortNames []string
		}
		Versions []struct {
			Name                     string
			Served, Storage          bool
			AdditionalPrinterColumns []struct{ Name string }
			Subresources             struct{ Status any }
		}
	}
}

func read(t *testing.T, contract string) map[string]definition {
	t.Helper()
	files, err := ForContract(contract)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]definition{}
	for name, data := range files {
		var d definition
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[d.Spec.Names.Kind] = d
	}
	want := []string{"CapstanCluster", "CapstanClusterTemplate", "CapstanHost", "CapstanMachine", "CapstanMachineTemplate"}
	if kinds := slices.Sorted(maps.Keys(all)); !slices.Equal(kinds, want) {
		t.Fatalf("kinds %v, want %v", kinds, want)
	}
	return all
}

// TestContractLabels: the label of each contract names the API version that implements the contract. This version
// exists and is served, and no two labels name the same version (IM-35, IM-36, IC-08, IC-09, IMT-11, ICT-08, D-13).
func TestContractLabels(t *testing.T) {
	for kind, d := range read(t, "") {
		t.Run(kind, func(t *testing.T) {
			served := map[string]bool{}
			storage := ""
			for _, v := range d.Spec.Versions {
				served[v.Name] = v.Served
				if v.Storage {
					storage += v.Name
				}
			}
			if storage != "v1beta2" {
				t.Errorf("stored as %q, want v1beta2", storage)
			}
			want := map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
			if kind == "CapstanHost" { // the contract has no such resource, so there is no older version
				want = map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"}
			}
			under := map[string]string{}
			for label, value := range d.Metadata.Labels {
				if !strings.HasPrefix(label, "cluster.x-k8s.io/v") {
					continue
				}
				if want[label] != value {
					t.Errorf("label %s=%s, want %q", label, value, want[label])
				}
				for _, v := range strings.Split(value, "_") {
					if !served[v] {
						t.Errorf("label %s names %s, which is not served", label, v)
					}
					if other := under[v]; other != "" {
						t.Errorf("API version %s is named by the labels %s and %s", v, label, other)
					}
					under[v] = label
				}
				delete(want, label)
			}
			if len(want) > 0 {
				t.Errorf("these labels are missing: %v", want)
			}
		})
	}
}

func TestForContractKeepsOneLabelOnly(t *testing.T) {
	full := read(t, "")
	for _, contract := range []string{"v1beta1", "v1beta2"} {
		for kind, d := range read(t, contract) {
			for label := range d.Metadata.Labels {
				if strings.HasPrefix(label, "cluster.x-k8s.io/v") && label != "cluster.x-k8s.io/"+contract {
					t.Errorf("%s for contract %s has label %s", kind, contract, label)
				}
			}
			if kind != "CapstanHost" && d.Metadata.Labels["cluster.x-k8s.io/"+contract] != contract {
				t.Errorf("%s has labels %v and does not serve contract %s", kind, d.Metadata.Labels, contract)
			}
			if len(d.Spec.Versions) != len(full[kind].Spec.Versions) {
				t.Errorf("%s for contract %s and the full definition have different numbers of versions", kind, contract)
			}
		}
	}
	if _, ok := full["CapstanHost"].Metadata.Labels["clusterctl.cluster.x-k8s.io"]; !ok {
		t.Error("hosts would not move with their clusters")
	}
}

// TestNames checks the names that people type and the columns that they see (IM-70, IC-14, IMT-09).
func TestNames(t *testing.T) {
	short := map[string]string{}
	for kind, d := range read(t, "") {
		if !slices.Contains(d.Spec.Names.Categories, "cluster-api") {
			t.Errorf("%s is not in category cluster-api", kind)
		}
		if len(d.Spec.Names.ShortNames) == 0 {
			t.Errorf("%s has no short name", kind)
		}
		for _, name := range d.Spec.Names.ShortNames {
			if other := short[name]; other != "" {
				t.Errorf("%s and %s have the short name %s", kind, other, name)
			}
			short[name] = kind
		}
		for _, v := range d.Spec.Versions {
			if len(v.AdditionalPrinterColumns) == 0 {
				t.Errorf("%s %s has no columns", kind, v.Name)
			}
			if template := strings.HasSuffix(kind, "Template"); (v.Subresources.Status == nil) != template {
				t.Errorf("%s %s: status is a subresource: %v (IM-09)", kind, v.Name, v.Subresources.Status != nil)
			}
		}
	}
}
