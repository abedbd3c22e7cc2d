package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/extension/backup"
)

// TestRoleNamesTheLeases: the role names exactly the Leases that replicas use.
func TestRoleNamesTheLeases(t *testing.T) {
	data, err := os.ReadFile("../../config/extension/leases_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n---\n")
	var role rbacv1.Role
	if err := yaml.UnmarshalStrict([]byte(first), &role); err != nil {
		t.Fatal(err)
	}
	if got := role.Rules[0].ResourceNames; !slices.Equal(got, backup.LeaseNames()) {
		t.Errorf("the role names %v, replicas use %v", got, backup.LeaseNames())
	}
}
