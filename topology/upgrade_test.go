package topology

import (
	"strings"
	"testing"
)

func TestCheckUpgrade(t *testing.T) {
	for name, c := range map[string]struct{ from, to, refusal string }{
		"the next minor":             {"v1.35.4", "v1.36.3", ""},
		"a patch":                    {"v1.36.0", "v1.36.3", ""},
		"the same again waits only":  {"v1.36.3", "v1.36.3", ""},
		"a minor is left out":        {"v1.34.1", "v1.36.3", "more than one minor"},
		"back":                       {"v1.36.3", "v1.35.4", "does not go back"},
		"a pre-release is older":     {"v1.36.0", "v1.36.0-rc.1", "does not go back"},
		"another major":              {"v1.36.3", "v2.0.0", "more than one minor"},
		"not a version":              {"v1.36.3", "latest", `"latest"`},
		"a cluster without versions": {"", "v1.36.3", `the cluster's version ""`},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckUpgrade(c.from, c.to)
			if (err == nil) != (c.refusal == "") || (err != nil && !strings.Contains(err.Error(), c.refusal)) {
				t.Errorf("got %v, want %q", err, c.refusal)
			}
		})
	}
}
