package bootstrap

import (
	"strings"
	"testing"
)

func TestTheNodesNameInHosts(t *testing.T) {
	const added = "192.0.2.11 rack-cp-1 # the Node on this host\n"
	cases := map[string]struct{ text, name, want string }{
		"an empty file": {"", "rack-cp-1", added},
		"others":        {"127.0.0.1 localhost\n", "rack-cp-1", "127.0.0.1 localhost\n" + added},
		"no end of the last line": {"127.0.0.1 localhost", "rack-cp-1", "127.0.0.1 localhost\n" +
			strings.TrimSuffix(added, "\n")},
		"it has the name":   {"::1 a\n192.0.2.9 b RACK-cp-1\n", "rack-cp-1", "::1 a\n192.0.2.9 b RACK-cp-1\n"},
		"only in a comment": {"# rack-cp-1\n", "rack-cp-1", "# rack-cp-1\n" + added},
		"no name":           {"::1 a\n", "", ""},
		"more than a name":  {"::1 a\n", "x\n192.0.2.66 registry.k8s.io", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := withName(c.text, "192.0.2.11", c.name)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			if again, err := withName(got, "192.0.2.11", c.name); c.want != "" && (again != got || err != nil) {
				t.Errorf("once more: %q, %v", again, err)
			}
			if before := withoutNames(got); c.want != "" && before != c.text {
				t.Errorf("without it %q, want %q", before, c.text)
			}
		})
	}
}
