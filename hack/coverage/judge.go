package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract"
)

// row is one line of the report: a rule, or a rule in one contract version if its family is recorded by version.
type row struct {
	id, version, level, of, text string
}

// name returns the key of a row in records and reasons.
func (r row) name() string {
	if r.version == "" {
		return r.id
	}
	return r.id + " " + r.version
}

// state is what is known about a row.
type state string

const (
	passed  state = "pass"
	failed  state = "FAIL"
	reason  state = "reason"
	missing state = "MISSING"
)

// result is a row with what the tests recorded about it, or the reason why no test records it.
type result struct {
	row
	state  state
	tests  []string
	reason string
}

// byVersion reports whether tests record the rules of a family once for each contract version. They do so for the
// families of InfraMachine, InfraCluster and their templates, because a provider serves the two contract versions
// differently.
func byVersion(family string) bool {
	return slices.Contains([]string{"IM", "IMT", "IC", "ICT"}, family)
}

// rows returns the rows of the report. A rule has one row, but if its family is recorded by version (byVersion), the
// rule has one row for each contract version to which it belongs. In such a family, each sequence (see
// [contract.Sequence]) also has one row for each contract version. Sequences of other families have no rows.
func rows() []row {
	var all []row
	add := func(r row, family string, in func(contract.Version) bool) {
		if !byVersion(family) {
			all = append(all, r)
			return
		}
		for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
			if in(v) {
				r.version = string(v)
				all = append(all, r)
			}
		}
	}
	for _, r := range contract.Rules() {
		add(row{id: r.ID, level: string(r.Level), of: string(r.Of), text: r.Text}, r.Family(), r.In)
	}
	for _, s := range contract.Sequences() {
		family := strings.Split(s.ID, "-")[1]
		if byVersion(family) {
			r := row{id: s.ID, level: "TEST", of: "provider", text: s.Do}
			add(r, family, func(contract.Version) bool { return true })
		}
	}
	return all
}

// judge joins rows, records and reasons. The problems make the build fail: a row with neither record nor reason, a row
// with both, and a record or reason for something that does not exist.
func judge(rows []row, records []record, reasons map[string]string) (results []result, problems []string) {
	tests := map[string]map[string]bool{}
	bad := map[string]bool{}
	for _, r := range records {
		name := row{id: r.id, version: r.version}.name()
		if tests[name] == nil {
			tests[name] = map[string]bool{}
		}
		tests[name][r.test] = true
		bad[name] = bad[name] || r.verdict == fail
	}
	used := map[string]bool{}
	for _, r := range rows {
		why, key := reasons[r.name()], r.name()
		if why == "" {
			why, key = reasons[r.id], r.id
		}
		if family, _ := contract.FamilyOf(r.id); why == "" {
			why = family.Elsewhere
		}
		found := slices.Sorted(maps.Keys(tests[r.name()]))
		delete(tests, r.name())
		one := result{row: r, tests: found, reason: why}
		switch {
		case len(found) > 0 && bad[r.name()]:
			one.state = failed
		case len(found) > 0:
			one.state = passed
		case why != "":
			one.state = reason
			used[key] = true
		default:
			one.state = missing
			problems = append(problems, fmt.Sprintf("no executed test asserts %s (%s): %s", r.name(), r.level, r.text))
		}
		if len(found) > 0 && reasons[r.name()] != "" {
			used[r.name()] = true
			problems = append(problems,
				fmt.Sprintf("%s has a reason, but %s asserts it: remove the reason", r.name(), found[0]))
		}
		results = append(results, one)
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		by := slices.Sorted(maps.Keys(tests[name]))
		if s := strings.HasPrefix(name, "T-"); s && sequence(name) {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s records %s, which the contract does not have", by[0], name))
	}
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		if !used[name] {
			problems = append(problems,
				fmt.Sprintf("the reason for %s has no use: tests assert it, or there is no such rule", name))
		}
	}
	return results, problems
}

// sequence reports whether a sequence with this id exists. Sequences need no record, but may have one.
func sequence(id string) bool {
	return slices.ContainsFunc(contract.Sequences(), func(s contract.Sequence) bool { return s.ID == id })
}
