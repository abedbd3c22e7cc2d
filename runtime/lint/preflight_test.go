package lint

import (
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
)

func TestMinorOf(t *testing.T) {
	for version, want := range map[string]hook.Release{
		"v1.13.4": "v1.13", "v2.0.0-rc.1": "v2.0", "1.13.4": "", "main": "", "": "",
	} {
		if got := minorOf(version); got != want {
			t.Errorf("%q is of %q, want %q", version, got, want)
		}
	}
}

func TestParseExtensions(t *testing.T) {
	const one = "kind: ExtensionConfig\nmetadata: {name: one}\n"
	for name, c := range map[string]struct {
		text string
		want []string
		err  string
	}{
		"one": {one, []string{"one"}, ""},
		"a list": {
			"kind: List\nitems:\n- kind: ExtensionConfig\n  metadata: {name: two}\n", []string{"two"}, "",
		},
		"several documents": {
			one + "---\nkind: List\nitems: [{metadata: {name: two}}]\n", []string{"one", "two"}, "",
		},
		"JSON":           {`{"kind": "ExtensionConfig", "metadata": {"name": "one"}}`, []string{"one"}, ""},
		"something else": {"kind: Pod\nmetadata: {name: x}\n", nil, "a file holds no ExtensionConfigs"},
		"nothing":        {"", nil, "a file holds no ExtensionConfigs"},
		"invalid YAML":   {"kind: [\n", nil, "reading ExtensionConfigs in a file"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := ParseExtensions(strings.NewReader(c.text), "a file")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got %v, %v", all, err)
			}
			if len(all) != len(c.want) {
				t.Fatalf("got %v", all)
			}
			for i := range all {
				if all[i].Name != c.want[i] {
					t.Errorf("got %q, want %q", all[i].Name, c.want[i])
				}
			}
			var none *NoExtensionsError
			if strings.Contains(c.err, "holds no") && (!errors.As(err, &none) || none.Hint() == "") {
				t.Errorf("got %T", err)
			}
		})
	}
}

func TestBroken(t *testing.T) {
	u := &Upgrade{Impacts: []rules.Impact{{Verdict: rules.Break}, {Verdict: rules.Warning}, {}, {Verdict: rules.Break}}}
	if got := u.Broken(); got != 2 {
		t.Errorf("%d handlers break", got)
	}
}
