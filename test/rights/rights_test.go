package rights

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
)

var update = flag.Bool("update", false, "write the rights as they are now")

// sources are the files with roles, relative to the root of the source tree.
var sources = []string{
	"config/rbac/*.yaml", "config/extension/*.yaml", "config/own-certificates/*.yaml", "plane/manifests/access.yaml",
}

// means says, for each role, what a change of that role means.
var means = map[string]string{
	"host":                           "whoever is root on one host, or has stolen its token, can do this",
	"capstan-manager":                "whoever takes over the provider can do this; hosts get only rights that it has",
	"capstan-manager.capstan-system": "whoever takes over the provider can do this in its own namespace",
	"capstan-manager-certificates":   "a manager with certificates of its own can do this to the webhooks of the cluster",
	"capstan-extension":              "whoever takes over the extension can do this",
	"capstan-extension-certificate.capstan-system": "the extension can do this in its own namespace",
	"capstan-extension-leases.capstan-system":      "the extension can do this in its own namespace",
	"capstan-core":                     "Cluster API's core can do this with our objects",
	"capstan-view":                     "everybody with role view in a namespace sees this: it must contain no secrets",
	"capstan-edit":                     "every tenant with role edit in a namespace gets this with an upgrade",
	"capstan-inventory":                "those who run computers can do this in their namespace",
	"capstan-mover":                    "those who move clusters can do this, and so take a host from a machine",
	"capstan-plane-manager":            "the process of the embedded plane can do this",
	"capstan-plane-manager-aggregated": "the process of the embedded plane can do what roles of other providers allow",
}

// role is a role as text.
type role struct{ name, text string }

func TestRights(t *testing.T) {
	found := append(roles(t), hostRole(t))
	known := map[string]bool{}
	for _, r := range found {
		known[r.name+".txt"] = true
		file := filepath.Join("testdata", r.name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(r.text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("role %s is new: %v\n%s", r.name, err, r.text)
		}
		if more, less := difference(string(want), r.text), difference(r.text, string(want)); more+less != "" {
			t.Errorf("the rights of %s have changed.\nadded:\n%sremoved:\n%sWhat a change of this role means: %s.\n"+
				"If the change is wanted, say why in the commit and run: go test ./test/rights -update",
				r.name, more, less, means[r.name])
		}
		if means[r.name] == "" {
			t.Errorf("nothing says what a change of role %s means: add the role to the variable means", r.name)
		}
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !known[file.Name()] {
			t.Errorf("%s describes a role that no longer exists: delete the file", file.Name())
		}
	}
}

// difference returns the lines of b that a does not have.
func difference(a, b string) string {
	var lines strings.Builder
	for line := range strings.Lines(b) {
		if !strings.Contains("\n"+a, "\n"+line) {
			lines.WriteString("    " + line)
		}
	}
	return lines.String()
}

// roles returns all roles of the sources.
func roles(t *testing.T) (found []role) {
	t.Helper()
	for _, pattern := range sources {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(files))
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, document := range documents(data) {
				var r rbacv1.ClusterRole
				if err := yaml.Unmarshal(document, &r); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				if r.Kind != "ClusterRole" && r.Kind != "Role" {
					continue
				}
				found = append(found, role{strings.TrimSuffix(r.Name+"."+r.Namespace, "."), write(r)})
			}
		}
	}
	return found
}

// documents returns the documents of a YAML file.
func documents(data []byte) [][]byte { return bytes.Split(data, []byte("\n---\n")) }

// hostRole returns the role of a host's account.
func hostRole(t *testing.T) role {
	t.Helper()
	host := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rack1-07", UID: "1"}}
	for _, object := range identity.Objects(host) {
		ac, ok := object.(*rbacv1ac.RoleApplyConfiguration)
		if !ok {
			continue
		}
		data, err := json.Marshal(ac)
		if err != nil {
			t.Fatal(err)
		}
		var r rbacv1.ClusterRole
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatal(err)
		}
		r.Labels = nil
		return role{"host", write(r)}
	}
	t.Fatal("a host has no role")
	return role{}
}

// write returns a role as text, with one line for each resource.
func write(r rbacv1.ClusterRole) string {
	var lines []string
	for label, value := range r.Labels {
		lines = append(lines, fmt.Sprintf("label %s=%s\n", label, value))
	}
	if r.AggregationRule != nil {
		for _, selector := range r.AggregationRule.ClusterRoleSelectors {
			lines = append(lines, fmt.Sprintf("all of roles with %s\n", metav1.FormatLabelSelector(&selector)))
		}
	}
	for _, rule := range r.Rules {
		verbs := strings.Join(slices.Sorted(slices.Values(rule.Verbs)), ",")
		for _, url := range rule.NonResourceURLs {
			lines = append(lines, fmt.Sprintf("%s: %s\n", url, verbs))
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				names := []string{""}
				if len(rule.ResourceNames) > 0 {
					names = rule.ResourceNames
				}
				for _, name := range names {
					if name != "" {
						name = " " + name
					}
					lines = append(lines, fmt.Sprintf("%s %s%s: %s\n", cmp.Or(group, "core"), resource, name, verbs))
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "")
}
