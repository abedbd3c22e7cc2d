// Package setting reads the settings that an ExtensionConfig carries in spec.settings: strings by name, sent with every
// call of a hook (RC-21).
//
// Each part of an extension says which settings it has; a [Table] joins them and is the one place where they are
// checked. A setting that is not known is an error like one that is wrong: a typing mistake in the name of a
// maintenance window must not mean that there is none.
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
	// Name of the setting, "<part>.<what>", for example "maintenance-window.windows".
	Name string
	// Default is the value of a setting that is not given.
	Default string
	// Does says in one sentence what it is for.
	Does string
	// Allowed says what may be written; it goes on after "must be".
	Allowed string
	// Check says what is wrong with a value; nil accepts all. Its text ends in conditions: it must not quote what may be a
	// secret (RX-28).
	Check func(value string) error
}

// Values are checked settings, each that is known with its value or its default.
type Values map[string]string

// Table is all settings of an extension, by name. Make it with [NewTable].
type Table struct {
	settings map[string]Setting
}

// NewTable joins settings. A name that is there twice, or a default that is not allowed, is an error of the program.
func NewTable(settings ...Setting) (*Table, error) {
	t := &Table{settings: map[string]Setting{}}
	for _, s := range settings {
		if _, twice := t.settings[s.Name]; twice {
			return nil, fmt.Errorf("setting %q is there twice", s.Name)
		}
		if err := s.check(s.Default); err != nil {
			return nil, fmt.Errorf("the default is not allowed: %w", err)
		}
		t.settings[s.Name] = s
	}
	return t, nil
}

// All gives the settings, sorted by name.
func (t *Table) All() []Setting {
	all := make([]Setting, 0, len(t.settings))
	for _, name := range t.names() {
		all = append(all, t.settings[name])
	}
	return all
}

// Read checks what was given and fills in defaults. The error names everything that is wrong, sorted by name, and what
// is allowed instead.
func (t *Table) Read(given map[string]string) (Values, error) {
	values := Values{}
	for name, s := range t.settings {
		values[name] = s.Default
	}
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		s, known := t.settings[name]
		if !known {
			problems = append(problems, fmt.Sprintf("setting %q is not known: known are %s", name,
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

// OneOf checks that a value is one of these.
func OneOf(allowed ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(allowed, value) {
			return errors.New("it is none of them")
		}
		return nil
	}
}
