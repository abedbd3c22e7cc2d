package check

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/contract/source"
)

// example returns a check without mistakes.
func example(run func(*Pass)) *Check {
	return &Check{
		ID: "example", Doc: "It is so.", Why: "Otherwise it fails.", Fix: "Make it so.", Level: Must,
		Contracts: []string{"v1beta2"},
		Rules:     []string{"IM-01"}, Page: "overview", Needs: []Need{Metadata}, Run: run,
	}
}

func TestValidate(t *testing.T) {
	if errs := Validate([]*Check{example(func(*Pass) {})}); len(errs) > 0 {
		t.Errorf("a check without mistakes has the errors %v", errs)
	}
	for name, test := range map[string]struct {
		change func(*Check)
		want   string
	}{
		"an id in upper case":          {func(c *Check) { c.ID = "Example" }, "bad id"},
		"a fix that is not a sentence": {func(c *Check) { c.Fix = "do it" }, "no sentence as Fix"},
		"no reason":                    {func(c *Check) { c.Why = "" }, "no sentence as Why"},
		"a level that does not exist":  {func(c *Check) { c.Level = "HIGH" }, "has level"},
		"no rules":                     {func(c *Check) { c.Rules = nil }, "lacks"},
		"nothing to run":               {func(c *Check) { c.Run = nil }, "lacks"},
		"both Run and Drive": {func(c *Check) {
			c.Drive = func(context.Context, *Pass, Driver) {}
		}, "exactly one of Run and Drive"},
		"a live check that does not need a management cluster": {func(c *Check) {
			c.Run, c.Drive = nil, func(context.Context, *Pass, Driver) {}
		}, "need a management cluster with the release if it has Drive"},
		"the same rule twice": {func(c *Check) { c.Rules = []string{"IM-01", "IM-01"} }, "same rule twice"},
	} {
		t.Run(name, func(t *testing.T) {
			c := example(func(*Pass) {})
			test.change(c)
			if errs := Validate([]*Check{c}); len(errs) != 1 || !strings.Contains(errs[0].Error(), test.want) {
				t.Errorf("the errors are %v, want one with %q", errs, test.want)
			}
		})
	}
	if errs := Validate([]*Check{example(func(*Pass) {}), example(func(*Pass) {})}); len(errs) != 1 {
		t.Errorf("two checks with the same id have the errors %v, want one", errs)
	}
}

// releases returns one release, which has metadata only.
func releases(t *testing.T) []*source.Release {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte("kind: Metadata\na: {b: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := source.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRun(t *testing.T) {
	object := func(p *Pass) *source.Object { return p.Release.Files[0].Objects[0] }
	finds := example(func(p *Pass) { p.Broken("IM-01", "v1beta2", object(p), []string{"a", "b"}, "b is %d", 1) })
	panics := example(func(p *Pass) {
		p.Broken("IM-01", "", object(p), nil, "found before")
		panic("no such field")
	})
	panics.ID = "panics"
	foreign := example(func(p *Pass) { p.Broken("IM-02", "", object(p), nil, "not its own rule") })
	foreign.ID = "foreign"
	needs := example(func(*Pass) { t.Error("a check ran over a release that lacks what it needs") })
	needs.ID, needs.Needs = "needs", []Need{Metadata, Deployments}

	report := Run([]*Check{panics, foreign, needs, finds}, releases(t))
	if len(report.Findings) != 3 || report.Checks != 3 {
		t.Fatalf(
			"there are %d findings of %d checks, want 3 of 3: %+v",
			len(report.Findings),
			report.Checks,
			report.Findings,
		)
	}
	last := report.Findings[2]
	if last.Check != "example" || last.Line != 2 || last.Column != 5 || last.Field != "a.b" || last.Message != "b is 1" ||
		last.Link != Book+"overview" ||
		last.Object != "Metadata" {
		t.Errorf("the finding is %+v", last)
	}
	if len(report.Skipped) != 1 || report.Skipped[0].Check != "needs" || report.Skipped[0].Missing != Deployments {
		t.Errorf("skipped is %+v", report.Skipped)
	}
	if len(report.Failures) != 2 || !strings.Contains(report.Failures[0].Message, "panicked: no such field") ||
		!strings.Contains(report.Failures[1].Message, "IM-02") {
		t.Errorf("the failures are %+v, want a panic, then a rule of another check", report.Failures)
	}
}

// deaf is a driver that can't reach a management cluster.
type deaf struct{}

var errDeaf = errors.New("nobody answers")

func (deaf) Apply(context.Context, *unstructured.Unstructured, Applying) (*unstructured.Unstructured, error) {
	return nil, errDeaf
}

func (deaf) Delete(context.Context, *unstructured.Unstructured) error { return errDeaf }

func (deaf) Observe(context.Context, *unstructured.Unstructured) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) { yield(nil, errDeaf) }
}

// A live check runs if there is a driver, and is skipped otherwise. A request that could not be made is a failure of
// the check.
func TestRunLive(t *testing.T) {
	c := example(nil)
	c.Needs = []Need{Installed}
	c.Drive = func(ctx context.Context, p *Pass, d Driver) {
		_, err := d.Apply(ctx, &unstructured.Unstructured{}, Applying{})
		p.Failed(err)
		p.BrokenAt("IM-01", source.Position{File: "a"}, "it is not so")
	}
	release := releases(t)[0]
	report := Run([]*Check{c}, []*source.Release{release})
	if len(report.Skipped) != 1 || report.Skipped[0].Missing != Installed || report.Checks != 0 {
		t.Errorf("without a driver, the report is %+v, want the check skipped", report)
	}
	report = RunLive(t.Context(), deaf{}, []*Check{c}, release)
	if len(report.Findings) != 1 || report.Checks != 1 || len(report.Failures) != 1 ||
		!strings.Contains(report.Failures[0].Message, "driving the provider: nobody answers") {
		t.Errorf("with a driver, the report is %+v, want one finding and one failure", report)
	}
}
