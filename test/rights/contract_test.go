package rights

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const group = "infrastructure.capstan.dev"

// all lists the verbs that the contract calls full rights.
var all = []string{"create", "delete", "get", "list", "patch", "update", "watch"}

// beyondReading is what the manager may do with Cluster API's objects in addition to reading them.
var beyondReading = []string{"delete machines", "patch machines"}

// read returns the first role in a file of config/rbac.
func read(t *testing.T, file string) rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", file))
	if err != nil {
		t.Fatal(err)
	}
	var r rbacv1.ClusterRole
	for _, document := range documents(data) {
		if err := yaml.Unmarshal(document, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if r.Kind == "ClusterRole" {
			return r
		}
	}
	t.Fatalf("%s has no ClusterRole", file)
	return r
}

// verbs returns the verbs that a role allows on all objects of a resource. It ignores rules for objects with certain
// names.
func verbs(r rbacv1.ClusterRole, group, resource string) (may []string) {
	for _, rule := range r.Rules {
		about := slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource)
		if about && len(rule.ResourceNames) == 0 {
			may = append(may, rule.Verbs...)
		}
	}
	slices.Sort(may)
	return slices.Compact(may)
}

// lacks returns the verbs in want that a role does not allow on all objects of a resource.
func lacks(r rbacv1.ClusterRole, group, resource string, want ...string) []string {
	may := verbs(r, group, resource)
	return slices.DeleteFunc(slices.Clone(want), func(verb string) bool { return slices.Contains(may, verb) })
}

// TestManagerHasWhatTheContractNames compares the manager's role with what a provider's controller needs.
func TestManagerHasWhatTheContractNames(t *testing.T) {
	r := read(t, "role.yaml")
	for _, resource := range []string{"capstanclusters", "capstanmachines", "capstanhosts"} {
		if missing := lacks(r, group, resource, all...); len(missing) > 0 {
			t.Errorf("the manager may not %v %s", missing, resource)
		}
		t.Attr("rule", "RB-01")
		if missing := lacks(r, group, resource+"/status", "get", "patch", "update"); len(missing) > 0 {
			t.Errorf("the manager may not %v the status of %s", missing, resource)
		}
		t.Attr("rule", "RB-02")
	}
	const core = "cluster.x-k8s.io"
	var writes []string
	for _, rule := range r.Rules {
		if !slices.Contains(rule.APIGroups, core) {
			continue
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					writes = append(writes, verb+" "+resource)
				}
			}
		}
	}
	// Reading is enough except for Machines. The manager annotates failed Machines, so that core replaces them, and
	// deletes Machines that core leaves behind when their control plane object is gone.
	if slices.Sort(writes); !slices.Equal(slices.Compact(writes), beyondReading) {
		t.Errorf("besides reading Cluster API's objects, the manager may %v, want %v", writes, beyondReading)
	}
	for _, resource := range []string{"clusters", "machines"} {
		if missing := lacks(r, core, resource, "get", "list", "watch"); len(missing) > 0 {
			t.Errorf("the manager may not %v %s", missing, resource)
		}
		t.Attr("rule", "RB-03")
	}
}

// TestCoreHasWhatTheContractNames compares the role that core gets by aggregation with the rights that the contract
// names for API groups other than Cluster API's own.
func TestCoreHasWhatTheContractNames(t *testing.T) {
	r := read(t, "aggregated_role.yaml")
	if got := r.Labels["cluster.x-k8s.io/aggregate-to-manager"]; got != "true" {
		t.Errorf("the label for aggregation is %q, want true", got)
	}
	t.Attr("rule", "RB-08")
	if missing := lacks(r, group, "capstanmachines", all...); len(missing) > 0 {
		t.Errorf("core may not %v capstanmachines", missing)
	}
	t.Attr("rule", "RB-05")
	if missing := lacks(r, group, "capstanclusters", all...); len(missing) > 0 {
		t.Errorf("core may not %v capstanclusters", missing)
	}
	t.Attr("rule", "RB-06")
	if missing := lacks(r, group, "capstanclustertemplates", "get", "list", "patch", "update", "watch"); len(
		missing,
	) > 0 {
		t.Errorf("core may not %v capstanclustertemplates", missing)
	}
	t.Attr("rule", "RB-07")
	if missing := lacks(r, group, "capstanmachinetemplates", all...); len(missing) > 0 {
		t.Errorf("core may not %v capstanmachinetemplates", missing)
	}
	t.Attr("rule", "RB-09")
}
