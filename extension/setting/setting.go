// Package setting reads the settings in spec.settings of an ExtensionConfig: strings by name, sent with every call of a
// hook (rule RC-21 of the Runtime SDK contract).
//
// Each part of an extension declares its settings. A [Table] joins them and is the only place that validates them. An
// unknown setting is an error, like an invalid one: a typing mistake in the name of a maintenance window must not mean
// that there is none.
package setting

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Setting is one key of spec.settings.
type Setting struct {
	// Name is the name of the setting, "<part>.<what>", for example "maintenance-window.windows".
	Name string
	// Default is the value of a missing setting.
	Default string
	// Does describes the purpose for the table in docs/lifecycle-extensions.md.
	Does string
	// Allowed describes the valid values; it continues "must be".
	Allowed string
	// Check validates a value; nil accepts all. Its error ends up in conditions, so it must not quote what may be a
	// secret (rule RX-28 of the Runtime SDK contract).
	Check func(value string) error
}

// Values are validated settings: for each known setting, its value or its default.
type Values map[string]string

// Table holds all settings of an extension, by name. Create it with [NewTable].
type Table struct {
	settings map[string]Setting
}

// NewTable joins settings. A duplicate name or an invalid default is an error in the program.
func NewTable(settings ...Setting) (*Table, error) {
	t := &Table{settings: map[string]Setting{}}
	for _, s := range settings {
		if _, twice := t.settings[s.Name]; twice {
			return nil, fmt.Errorf("setting %q is set twice", s.Name)
		}
		if err := s.check(s.Default); err != nil {
			return nil, fmt.Errorf("the default is not allowed: %w", err)
		}
		t.settings[s.Name] = s
	}
	return t, nil
}

// All returns the settings, sorted by name.
func (t *Table) All() []Setting {
	all := make([]Setting, 0, len(t.settings))
	for _, name := range t.names() {
		all = append(all, t.settings[name])
	}
	return all
}

// Read validates settings and fills in defaults. The error lists everything that is wrong, sorted by name, with what is
// valid instead.
func (t *Table) Read(given map[string]string) (Values, error) {
	values := Values{}
	for name, s := range t.settings {
		values[name] = s.Default
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		s, known := t.settings[name]
		if !known {
			problems = append(problems, fmt.Sprintf("setting %q is unknown: the settings are %s", name,
				strings.Join(t.names(), ", ")))
			continue
		}
		if err := s.check(given[name]); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		values[name] = given[name]
	}
	if len(problems) > 0 {
		return nil, errors.New("spec.settings of the ExtensionConfig: " + strings.Join(problems, "; "))
	}
	return values, nil
}

func (s Setting) check(value string) error {
	if s.Check == nil {
		return nil
	}
	if err := s.Check(value); err != nil {
		return fmt.Errorf("setting %q must be %s: %w", s.Name, s.Allowed, err)
	}
	return nil
}

func (t *Table) names() []string { return slices.Sorted(maps.Keys(t.settings)) }

// OneOf returns a check that a value is one of these.
func OneOf(allowed ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(allowed, value) {
			return errors.New("it is not one of them")
		}
		return nil
	}
}
