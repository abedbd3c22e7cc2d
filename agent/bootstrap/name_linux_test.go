package bootstrap

import (
	"strings"
	"testing"
)

func TestTheNodesNameInHosts(t *testing.T) {
	const added = "192.0.2.11 rack-cp-1 # the Node on this host\n"
	cases := map[string]struct{ text, name, want string }{
		"an empty file": {"", "rack-cp-1", added},
		"other names":   {"127.0.0.1 localhost\n", "rack-cp-1", "127.0.0.1 localhost\n" + added},
		"no line break at the end": {"127.0.0.1 localhost", "rack-cp-1", "127.0.0.1 localhost\n" +
			strings.TrimSuffix(added, "\n")},
		"the name is there already":  {"::1 a\n192.0.2.9 b RACK-cp-1\n", "rack-cp-1", "::1 a\n192.0.2.9 b RACK-cp-1\n"},
		"the name only in a comment": {"# rack-cp-1\n", "rack-cp-1", "# rack-cp-1\n" + added},
		"an empty name":              {"::1 a\n", "", ""},
		"a name with a line break":   {"::1 a\n", "x\n192.0.2.66 registry.k8s.io", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := withName(c.text, "192.0.2.11", c.name)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			if again, err := withName(got, "192.0.2.11", c.name); c.want != "" && (again != got || err != nil) {
				t.Errorf("added once more: %q, %v", again, err)
			}
			if before := withoutNames(got); c.want != "" && before != c.text {
				t.Errorf("without the name %q, want %q", before, c.text)
			}
		})
	}
}
