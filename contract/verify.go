package contract

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
	"github.com/capstan-dev/capstan/contract/report"
	"github.com/capstan-dev/capstan/contract/source"
)

// TB is the part of testing.TB that [Verify] uses.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Option changes what [Verify] does.
type Option func(*options)

type options struct {
	before string
	reader source.Reader
	ctx    context.Context
	driver check.Driver
}

// Variables sets values of clusterctl's variables, by name, instead of their defaults. A variable that no file uses
// fails the test.
func Variables(values map[string]string) Option {
	return func(o *options) { o.reader.Variables = values }
}

// Clusters also renders the ClusterClasses of the release with the variables of the Clusters in these files. A Cluster
// whose class is not in the release fails the test.
func Clusters(paths ...string) Option {
	return func(o *options) { o.reader.Clusters = paths }
}

// Against compares the release with an older release of the same provider.
func Against(path string) Option { return func(o *options) { o.before = path } }

// Driven also runs the live checks. The driver needs a management cluster with the release installed. The checks stop
// waiting when ctx is done.
func Driven(ctx context.Context, driver check.Driver) Option {
	return func(o *options) { o.ctx, o.driver = ctx, driver }
}

// Verify runs all checks over the release of a provider and fails the test for each finding. The path names a release
// directory, a components file, an archive, a kustomize base or the root of a Go module.
func Verify(t TB, path string, choices ...Option) {
	t.Helper()
	var o options
	for _, choose := range choices {
		choose(&o)
	}
	var before []*source.Release
	if o.before != "" {
		var err error
		if before, err = o.reader.Open(o.before); err != nil {
			t.Errorf("reading the release that came before: %v", err)
			return
		}
	}
	releases, err := o.reader.Open(path)
	if err != nil {
		t.Errorf("reading what is to be verified: %v", err)
		return
	}
	if unused := o.reader.Unused(releases); len(unused) > 0 {
		t.Errorf("the release does not use: %s", strings.Join(unused, ", "))
	}
	fail(t, check.Run(checks.All(), releases, before...))
	if o.driver == nil {
		return
	}
	for _, release := range releases {
		fail(t, check.RunLive(o.ctx, o.driver, checks.Live(), release))
	}
}

// VerifyUpgrade is [Verify] with [Against].
func VerifyUpgrade(t TB, before, path string, choices ...Option) {
	t.Helper()
	Verify(t, path, append(choices, Against(before))...)
}

// fail fails a test for each finding of a report, and for what could not be checked.
func fail(t TB, r *check.Report) {
	t.Helper()
	for _, f := range r.Findings {
		var text bytes.Buffer
		if err := report.Write(&text, report.Text, &check.Report{Findings: []check.Finding{f}}, nil); err != nil {
			t.Errorf("writing a finding: %v", err)
			return
		}
		t.Errorf("%s", text.String())
	}
	for _, f := range r.Failures {
		t.Errorf("%s", f)
	}
}

// UnknownError reports an id that no check or rule has.
type UnknownError struct{ ID string }

// Error names the id.
func (e *UnknownError) Error() string { return fmt.Sprintf("there is no check or rule %q", e.ID) }

// Hint says where to find ids.
func (e *UnknownError) Hint() string { return "ids are in each finding, and in docs/verify.md" }

// Explain writes what a check looks for and why, or what a rule requires and which checks cover it.
func Explain(w io.Writer, id string) error {
	found := checks.Find(id)
	rule, isRule := Find(id)
	if !isRule && len(found) == 0 {
		return &UnknownError{id}
	}
	if isRule {
		if _, err := fmt.Fprintf(w, "%s (%s)\n%s\n", rule.ID, rule.Level, rule.Text); err != nil {
			return err
		}
		for _, v := range rule.Versions() {
			if form := rule.Form(v); form != "" {
				fmt.Fprintf(w, "%s: %s\n", v, form)
			}
		}
		if len(found) == 0 {
			_, err := fmt.Fprintln(w, "\nNo check looks at this rule.")
			return err
		}
	}
	for i, c := range found {
		if i > 0 || isRule {
			fmt.Fprintln(w)
		}
		if err := report.Explain(w, c); err != nil {
			return err
		}
	}
	return nil
}
