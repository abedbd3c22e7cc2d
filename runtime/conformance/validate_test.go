package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// table is everything that the function validate checks.
type table struct {
	server, handler, last []check
	requirements          map[Requirement]requirement
}

func ours() table {
	return table{serverChecks, handlerChecks, lastChecks, maps.Clone(requirements)}
}

var (
	checkName = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	ruleID    = regexp.MustCompile(`^(RX|RC|RS|CL|LH|UH)-\d\d$`)
)

// validate returns everything that is wrong with a table. A test of the module checks that the rules exist: RULES.md
// must explain each cited id.
func validate(t table) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	known := map[string]check{}
	used := map[Requirement]bool{}
	validateOne := func(c check) {
		if !checkName.MatchString(c.Name) {
			fail("check %q: the name is not words with dashes", c.Name)
		}
		if _, twice := known[c.Name]; twice {
			fail("check %q: another check has the same name", c.Name)
		}
		if c.Doc == "" || strings.HasSuffix(c.Doc, ".") {
			fail("check %q: the doc must be a sentence without a period", c.Name)
		}
		if c.run == nil {
			fail("check %q: it has no function", c.Name)
		}
		if len(c.Rules) == 0 {
			fail("check %q: it names no rule", c.Name)
		}
		for i, rule := range c.Rules {
			if !ruleID.MatchString(rule) || slices.Contains(c.Rules[:i], rule) {
				fail("check %q: rule %q is not the id of a rule, or is named twice", c.Name, rule)
			}
		}
		for i, name := range c.Requires {
			r, ok := t.requirements[name]
			switch {
			case !ok:
				fail("check %q: requirement %q does not exist", c.Name, name)
			case slices.Contains(c.Requires[:i], name):
				fail("check %q: requirement %q is named twice", c.Name, name)
			case r.check != "" && known[r.check].run == nil:
				fail("check %q: requirement %q is determined by check %q, which does not come before it",
					c.Name, name, r.check)
			}
			used[name] = true
		}
		known[c.Name] = c
	}
	perServer := func(checks []check) {
		for _, c := range checks {
			validateOne(c)
			for _, name := range c.Requires {
				if t.requirements[name].handler {
					fail("check %q: it runs without a handler, but requires %q", c.Name, name)
				}
			}
		}
	}
	perServer(t.server)
	for _, c := range t.handler {
		validateOne(c)
		if len(c.Requires) == 0 || c.Requires[0] != RequiresHandler {
			fail("check %q: it runs for each handler, so it must first require %q", c.Name, RequiresHandler)
		}
	}
	perServer(t.last)
	for _, name := range slices.Sorted(maps.Keys(t.requirements)) {
		r := t.requirements[name]
		if r.met == nil || r.missing == "" || !used[name] {
			fail("requirement %q: it is not described, or no check requires it", name)
		}
	}
	return errors.Join(append(errs, cycles(t, known)...)...)
}

// cycles reports the checks that require themselves, directly or through other checks.
func cycles(t table, known map[string]check) (errs []error) {
	const white, grey, black = 0, 1, 2
	colour := map[string]int{}
	var visit func(name string, path []string)
	visit = func(name string, path []string) {
		path = append(path, name)
		if colour[name] == grey {
			errs = append(errs, fmt.Errorf("a cycle: %s", strings.Join(path, " requires ")))
		}
		if colour[name] != white {
			return
		}
		colour[name] = grey
		for _, r := range known[name].Requires {
			if next := t.requirements[r].check; next != "" {
				visit(next, path)
			}
		}
		colour[name] = black
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		visit(name, nil)
	}
	return errs
}

// The table of checks is valid.
func TestTheTableIsValid(t *testing.T) {
	if err := validate(ours()); err != nil {
		t.Error(err)
	}
}

// The validation finds each mistake that a table can have.
func TestValidateFindsMistakes(t *testing.T) {
	made := func(context.Context, *probe, *handler) error { return nil }
	is := func(name string, requires ...Requirement) check {
		return check{Check{Name: name, Rules: []string{"RX-01"}, Doc: "all is well", Requires: requires}, made}
	}
	with := func(c check, change func(*check)) check {
		change(&c)
		return c
	}
	server := func(c check) func(*table) { return func(t *table) { t.server = append(slices.Clone(t.server), c) } }
	for name, c := range map[string]struct {
		change func(*table)
		want   string
	}{
		"two checks with the same name": {server(is("https")), "the same name"},
		"an invalid name":               {server(is("Not a name")), "words with dashes"},
		"no doc":                        {server(with(is("new"), func(c *check) { c.Doc = "" })), "a sentence"},
		"no function":                   {server(with(is("new"), func(c *check) { c.run = nil })), "no function"},
		"no rule":                       {server(with(is("new"), func(c *check) { c.Rules = nil })), "names no rule"},
		"an invalid rule": {
			server(with(is("new"), func(c *check) { c.Rules = []string{"RX"} })), `"RX" is not the id`,
		},
		"a rule twice": {server(with(is("new"), func(c *check) { c.Rules = []string{"RX-01", "RX-01"} })),
			"named twice"},
		"an unknown requirement": {
			server(is("new", "luck")), `"luck" does not exist`,
		},
		"a requirement twice": {
			server(is("new", RequiresDiscovery, RequiresDiscovery)), "named twice",
		},
		"a check of the server requires a handler": {
			server(is("new", RequiresHandler)), "without a handler",
		},
		"a check of handlers does not require a handler": {
			func(t *table) { t.handler = append(slices.Clone(t.handler), is("new")) }, "must first require",
		},
		"a requirement that a later check determines": {
			func(t *table) { t.server = append([]check{is("new", RequiresDiscovery)}, t.server...) }, "does not come before",
		},
		"a requirement that no check determines": {
			func(t *table) {
				t.requirements["luck"] = requirement{
					check: "fortune", met: requirements[RequiresDiscovery].met, missing: "bad luck",
				}
				server(is("new", "luck"))(t)
			}, "does not come before",
		},
		"a requirement that is not described": {
			func(t *table) { t.requirements["luck"] = requirement{} }, "not described",
		},
		"a cycle": {
			func(t *table) {
				for of, check := range map[Requirement]string{"a": "b", "b": "a"} {
					t.requirements[of] = requirement{check: check, met: requirements[RequiresDiscovery].met, missing: "no " + check}
				}
				server(is("a", "a"))(t)
				server(is("b", "b"))(t)
			}, "a requires b requires a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bad := ours()
			c.change(&bad)
			if err := validate(bad); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
