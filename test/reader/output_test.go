package reader

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	const printed = "  … dock: starts\n✓ dock started  1m2.5s\n\nThe plane is ready: 16 hosts.\n\n" +
		"Next:\n  capstan status\n"
	for name, c := range map[string]struct {
		shown string
		same  bool
	}{
		"only the time differs": {
			"✓ dock started  0s\nThe plane is ready: 16 hosts.\nNext:\n  capstan status", true},
		"the end is left out":                    {"✓ dock started  0s\n…", true},
		"the beginning is left out":              {"…\nNext:\n  capstan status", true},
		"the middle is left out":                 {"✓ dock started  0s\n…\n  capstan status", true},
		"an omission of no lines":                {"✓ dock started  0s\n…\nThe plane is ready: 16 hosts.\n…", true},
		"a number differs":                       {"✓ dock started  0s\nThe plane is ready: 15 hosts.\n…", false},
		"the page shows a failed step":           {"✗ dock started  0s\n…", false},
		"the page lacks the last lines":          {"✓ dock started  0s\nThe plane is ready: 16 hosts.", false},
		"the output lacks a line":                {"✓ dock started  0s\n✓ relay  0s\n…", false},
		"lines in another order":                 {"…\nNext:\n…\nThe plane is ready: 16 hosts.\n…", false},
		"the output goes on after the page ends": {"…\nNext:", false},
		"the page goes on after the output ends": {
			"…\n✓ dock started 0s\nThe plane is ready: 16 hosts.\nNext:\n  capstan status\nmore", false},
	} {
		err := compare(strings.Split(c.shown, "\n"), strings.Split(printed, "\n"))
		if (err == nil) != c.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNormal(t *testing.T) {
	for a, b := range map[string]string{
		"│ └─CapstanHost/host-04   True   InUse   zone zone-a, address 10.231.1.5": "│ └─CapstanHost/host-11 True " +
			"InUse zone zone-c, address 10.231.1.21",
		"MachineDeployment/demo-md-bcd24-xz9kk": "MachineDeployment/demo-md-wwfgh-29294",
		"19:34:32   Success   26.3ms":           "07:00:01   Success   1m2s",
	} {
		if normal(a) != normal(b) {
			t.Errorf("%q and %q differ: %q, %q", a, b, normal(a), normal(b))
		}
	}
	for a, b := range map[string]string{
		"all Nodes Ready": "no Nodes Ready",
		"v1.36.3":         "v1.36.4",
		"demo-workers":    "demo-masters",
		"16 of 16":        "15 of 16",
	} {
		if normal(a) == normal(b) {
			t.Errorf("%q and %q count as the same: %q", a, b, normal(a))
		}
	}
}
