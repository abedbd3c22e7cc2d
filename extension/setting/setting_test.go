package setting

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

func table(t *testing.T) *Table {
	t.Helper()
	table, err := NewTable(
		Setting{Name: "colour", Default: "red", Allowed: "red or blue", Check: OneOf("red", "blue")},
		Setting{Name: "name"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		given map[string]string
		want  map[string]string
		err   string
	}{
		"no settings: the defaults": {nil, map[string]string{"colour": "red", "name": ""}, ""},
		"a value replaces the default": {map[string]string{"colour": "blue"},
			map[string]string{"colour": "blue", "name": ""}, ""},
		"a setting without a check takes any value": {map[string]string{"name": "ü"},
			map[string]string{"colour": "red", "name": "ü"}, ""},
		"an unknown name, and the known names": {map[string]string{"color": "red"}, nil,
			`setting "color" is unknown: the settings are colour, name`},
		"a wrong value, and what is allowed": {map[string]string{"colour": "green"}, nil,
			`setting "colour" must be red or blue: it is not one of them`},
		"all errors, in order": {map[string]string{"x": "", "colour": ""}, nil,
			`spec.settings of the ExtensionConfig: setting "colour" must be red or blue: it is not one of them; setting "x" is unknown: the settings are colour, name`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := table(t).Read(c.given)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error is %v, want %q", err, c.err)
			}
			if err == nil && !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestATableThatCanNotWork(t *testing.T) {
	fails := func(string) error { return errors.New("no") }
	for name, settings := range map[string][]Setting{
		"a name that is there twice":       {{Name: "a"}, {Name: "a"}},
		"a default that is not allowed":    {{Name: "a", Check: fails}},
		"the second of two is not allowed": {{Name: "a"}, {Name: "b", Default: "x", Check: OneOf("y")}},
	} {
		if _, err := NewTable(settings...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAllIsSorted(t *testing.T) {
	all := table(t).All()
	if len(all) != 2 || all[0].Name != "colour" || all[1].Name != "name" {
		t.Errorf("got %v", all)
	}
}
