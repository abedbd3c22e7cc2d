package rules

import "testing"

func TestHookNames(t *testing.T) {
	for name, c := range map[string]struct {
		hooks []string
		want  string
	}{
		"none":                       {nil, ""},
		"one":                        {[]string{"g/v1/A"}, "A"},
		"as many hooks as are shown": {[]string{"g/v1/A", "g/v1/B", "g/v1/C"}, "A,B,C"},
		"more hooks than are shown":  {[]string{"g/v1/A", "g/v1/B", "g/v1/C", "g/v1/D"}, "A,B and 2 more"},
		"a hook without a version":   {[]string{"A"}, "A"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Finding{Hooks: c.hooks}).HookNames(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestImpactWhy(t *testing.T) {
	removed := Finding{Path: "request.zone", Message: "it was removed"}
	for name, c := range map[string]struct {
		findings []Finding
		want     string
	}{
		"nothing changes":             {nil, ""},
		"one change":                  {[]Finding{removed}, "request.zone: it was removed"},
		"a change of the hook itself": {[]Finding{{Message: "it is gone"}}, "it is gone"},
		"one of many changes": {
			[]Finding{removed, removed, removed}, "request.zone: it was removed (and 2 more)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Impact{Findings: c.findings}).Why(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
