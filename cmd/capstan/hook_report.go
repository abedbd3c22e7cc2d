package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/report"
	"github.com/capstan-dev/capstan/contract/source"
	"github.com/capstan-dev/capstan/runtime/conformance"
	"github.com/capstan-dev/capstan/runtime/rules"
)

// runtimePage is the page of Cluster API's book with the requirements for extensions.
const runtimePage = "https://cluster-api.sigs.k8s.io/tasks/experimental/runtime-sdk/implement-extensions"

// reportFlag adds -o to a command that judges something.
func reportFlag(cmd *cobra.Command, format *string) {
	var formats []string
	for _, f := range report.Formats() {
		formats = append(formats, string(f))
	}
	last := len(formats) - 1
	cmd.Flags().StringVarP(format, "output", "o", string(report.Text),
		"output format: "+strings.Join(formats[:last], ", ")+" or "+formats[last])
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// hookReport contains the findings of a command for extensions, in the format of capstan verify.
type hookReport struct {
	*check.Report
	table []*check.Check
}

// newHookReport returns an empty report of a command about one thing. Its table has one check for each rule that may be
// broken.
func newHookReport(command, about, fix string, ids ...string) hookReport {
	r := hookReport{Report: &check.Report{Tool: "capstan hook " + command, Releases: []string{about}, Checks: len(ids)}}
	r.Findings = []check.Finding{}
	for _, id := range ids {
		r.table = append(r.table, hookCheck(check.Check{ID: strings.ToLower(id), Rules: []string{id}, Fix: fix}))
	}
	return r
}

// hookCheck fills in a check from the catalog entry of its first rule.
func hookCheck(c check.Check) *check.Check {
	rule, _ := contract.Find(c.Rules[0])
	c.Doc, c.Why = cmp.Or(c.Doc, rule.Text), "Rule "+rule.ID+" of Runtime SDK: "+rule.Text
	c.Level, c.Page = cmp.Or(c.Level, check.Must), runtimePage
	return &c
}

// add adds a finding of one of the table's checks. A finding that is only a warning gets level SHOULD.
func (r hookReport) add(id string, warns bool, f check.Finding) {
	i := slices.IndexFunc(r.table, func(c *check.Check) bool { return c.ID == id })
	if i < 0 {
		r.Failures = append(r.Failures, check.Failure{Check: id, Release: r.Releases[0], Message: f.Message})
		return
	}
	c := r.table[i]
	f.Check, f.Rule, f.Level = c.ID, c.Rules[0], c.Level
	f.Why, f.Fix, f.Link = c.Why, c.Fix, c.Link()
	if warns {
		f.Level = check.Should
	}
	r.Findings = append(r.Findings, f)
}

// addHooks adds the findings of rules about a change of hooks. obj is the object whose hook changes; if it is empty,
// the findings name the hooks themselves.
func (r hookReport) addHooks(at, obj string, found ...rules.Finding) {
	for _, f := range found {
		r.add(strings.ToLower(f.Rule), f.Severity != rules.Break, check.Finding{
			Position: source.Position{File: at}, Object: cmp.Or(obj, "hook "+f.HookNames()), Field: f.Path, Message: f.Message,
		})
	}
}

// lintedRules are the rules that a change of hooks can break.
var lintedRules = []string{"RS-01", "RS-02", "RS-03", "RS-04", "RS-05", "RS-06"}

// lintReport returns the report of hook lint. pkg is the package as the user named it.
func lintReport(module, pkg string, found []rules.Finding) hookReport {
	at := pkg
	if !strings.Contains(module, "@") {
		at = filepath.Join(module, pkg)
	}
	r := newHookReport("lint", at, "Add a new version of the hook, or revert the change.", lintedRules...)
	r.addHooks(at, "", found...)
	return r
}

// preflightReport returns the report of hook preflight. location says where the ExtensionConfigs are.
func preflightReport(location string, impacts []rules.Impact) hookReport {
	r := newHookReport("preflight", location, "Get a release of the extension that works with the planned one.",
		append(slices.Clone(lintedRules), "RC-23")...)
	for _, i := range impacts {
		r.addHooks(location, "ExtensionConfig "+i.Extension+" handler "+i.Handler+" hook "+hookName(i.Hook), i.Findings...)
	}
	return r
}

// testReport returns the report of hook test.
func testReport(found *conformance.Report) hookReport {
	r := newHookReport("test", found.URL, "")
	made := map[string]bool{}
	for _, one := range found.Results {
		if !slices.ContainsFunc(r.table, func(c *check.Check) bool { return c.ID == one.Name }) {
			r.table = append(r.table, hookCheck(check.Check{
				ID: one.Name, Doc: one.Doc, Rules: one.Rules,
				Fix: "Change the extension, and check it with capstan hook test --only " + one.Name + ".",
			}))
		}
		made[one.Name] = made[one.Name] || one.Verdict != conformance.Skipped
	}
	for _, one := range found.Results {
		switch {
		case one.Stack != "":
			r.Failures = append(r.Failures, check.Failure{
				Check: one.Name, Release: found.URL, Message: one.Message + "\n" + one.Stack,
			})
		case one.Verdict == conformance.Failed || one.Verdict == conformance.Warned:
			r.add(one.Name, one.Verdict == conformance.Warned, check.Finding{
				Position: source.Position{File: found.URL}, Object: objectOf(one.Handler), Message: one.Message,
			})
		case one.Verdict == conformance.Skipped && !made[one.Name]:
			made[one.Name] = true // name it only once
			r.Skipped = append(r.Skipped, check.Skipped{
				Check: one.Name, Release: found.URL, Missing: check.Need(one.Message),
			})
		}
	}
	r.Checks = len(r.table) - len(r.Skipped)
	if found.Left != nil {
		r.Failures = append(r.Failures, check.Failure{
			Check: check.Source, Release: found.URL, Message: "not complete: " + found.Left.String(),
		})
	}
	return r
}

// objectOf returns the object of a finding about a handler; an empty handler means the server.
func objectOf(handler string) string {
	if handler == "" {
		return ""
	}
	return "handler " + handler
}

// writeReport prints a report in a format.
func (a *app) writeReport(format string, r hookReport) error {
	return report.Write(a.out, report.Format(format), r.Report, r.table)
}
