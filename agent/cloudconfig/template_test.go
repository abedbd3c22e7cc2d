package cloudconfig

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/agent/fault"
)

var testVars = Variables(map[string]any{
	"instance_id":    "default/h1/0a1b2c3d",
	"local_hostname": "demo-cp-x7",
	"provider_id":    "capstan://default/h1/0a1b2c3d",
	"zone":           "zone-a",
	"local_ipv4":     "10.231.1.2",
	"count":          float64(3),
})

// The results are those of Jinja 3.1 with trim_blocks, as configured by cloud-init.
func TestRender(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"plain text stays":             {"a: {b: 1}\n# }} %} {", "a: {b: 1}\n# }} %} {"},
		"a variable":                   {"{{ ds.meta_data.local_hostname }}", "demo-cp-x7"},
		"without spaces":               {"{{ds.meta_data.provider_id}}", "capstan://default/h1/0a1b2c3d"},
		"an expression over two lines": {"a{{ v1.local_hostname\n}}\nb", "ademo-cp-x7\nb"},
		"keys in brackets":             {`{{ ds['meta_data']["local_ipv4"] }}`, "10.231.1.2"},
		"a key with a dash":            {"{{ ds.meta_data['local-hostname'] }}", "demo-cp-x7"},
		"cloud-init's standard names": {
			"{{ v1.instance_id }} {{ local_hostname }} {{ availability_zone }} {{ ds.meta_data.hostname }}",
			"default/h1/0a1b2c3d demo-cp-x7 zone-a demo-cp-x7",
		},
		"a number": {"{{ ds.meta_data.count }}", "3"},
		"filters": {
			"{{ v1.local_hostname | upper }} {{ ' A ' | trim | lower }} {{ v1.local_hostname|replace('demo-', '') }}",
			"DEMO-CP-X7 a cp-x7",
		},
		"a default for what is missing": {
			"{{ ds.meta_data.region | default('none') }} {{ nowhere.at.all | d(\"x\") }}", "none x",
		},
		"no default for what is there":              {"{{ ds.meta_data.zone | default('none') }}", "zone-a"},
		"a default for what is empty":               {"{{ '' | default('none', true) }}", "none"},
		"braces in quotes do not end an expression": {"{{ 'a}}b' }}", "a}}b"},
		"quotes within quotes":                      {`{{ 'it\'s' }} {{ "a\nb" }}`, "it's a\nb"},
		"dashes take away white space":              {"a {{- 'x' -}} \n b", "axb"},
		"a comment is removed with its line break":  {"a\n{# {{ nothing }} #}\nb", "a\nb"},
		"a comment that takes away white space":     {"a \n {#- c -#} \n b", "ab"},
		"an empty comment":                          {"{##}{#-#}z", "z"},
		"a raw block": {"{% raw %}{{ .Values.x }} {% if %}{% endraw %}\nb",
			"{{ .Values.x }} {% if %}b"},
		"a raw block keeps its own line breaks":         {"{% raw %}\n{{ x }}\n{% endraw %}\nq", "\n{{ x }}\nq"},
		"a raw block that takes away white space":       {"a {%- raw -%}  {{ x }}  {%- endraw -%} \nq", "a{{ x }}q"},
		"braces that are not tags":                      {"{ {x} }{", "{ {x} }{"},
		"a value that looks like a tag is not rendered": {"{{ '{{ x }}' }}", "{{ x }}"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := render(c.text, testVars)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"an unknown variable": {"a\nb {{ ds.meta_data.region }}",
			"line 2: variable ds.meta_data.region is unknown"},
		"a variable after a raw block": {"{% raw %}\n\n{% endraw %}\n{{ region }}", "line 4: variable region is unknown"},
		"a name that may be a secret":  {"{{ Hunter2 }}", "line 1: a variable is unknown"},
		"a statement":                  {"{% if x %}", "not statements"},
		"an expression without an end": {"{{ v1.x", "has no end"},
		"a comment without an end":     {"{# x", "has no end"},
		"a raw block without an end":   {"{% raw %} x", "has no end"},
		"a function":                   {"{{ v1.local_hostname.split('.') }}", "functions are not supported"},
		"arithmetic":                   {"{{ v1.local_hostname + 'x' }}", "can only have a variable and filters"},
		"an unknown filter":            {"{{ v1.local_hostname | b64encode }}", "the filters are"},
		"a value that is not single":   {"{{ ds.meta_data }}", "not a single value"},
		"an empty expression":          {"{{ }}", "must start with"},
		"a Go template":                {"{{ .Values.x }}", "must start with"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := render(c.text, testVars)
			if err == nil {
				t.Fatalf("got %q", got)
			}
			shown := fault.Text(err, "nothing to show")
			if !strings.Contains(shown, c.want) || strings.Contains(shown, "unter2") {
				t.Errorf("shown %q, want %q", shown, c.want)
			}
		})
	}
}
