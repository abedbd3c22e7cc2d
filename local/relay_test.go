package local

import (
	"regexp"
	"strings"
	"testing"
)

func TestRelayNamesAreLabels(t *testing.T) {
	label := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) // what the dock accepts
	seen := map[string]string{}
	for _, cluster := range []string{
		"demo", "team.demo", "team-demo", "a.b.c", strings.Repeat("x", 39) + ".y", strings.Repeat("x", 63),
		strings.Repeat("x.", 126) + "x", strings.Repeat("x", 253),
	} {
		for _, namespace := range []string{"default", "other"} {
			name := RelayName(namespace, cluster)
			if !label.MatchString(name) {
				t.Errorf("the name for %s/%s is %q, which is not a DNS label", namespace, cluster, name)
			}
			if other, taken := seen[name]; taken {
				t.Errorf("%s/%s and %s share %q", namespace, cluster, other, name)
			}
			seen[name] = namespace + "/" + cluster
		}
	}
}

// TestRelayNamesStay: the names must not change, because existing clusters find their balancers by them.
func TestRelayNamesStay(t *testing.T) {
	for cluster, want := range map[string]string{
		"demo":                  "c-demo-02c8c86b63",
		strings.Repeat("x", 50): "c-" + strings.Repeat("x", 40) + "-8fe52801fc",
	} {
		if got := RelayName("default", cluster); got != want {
			t.Errorf("the name for %s is %q, want %q", cluster, got, want)
		}
	}
}
