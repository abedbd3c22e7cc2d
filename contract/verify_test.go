package contract

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
)

func TestChecksAreValid(t *testing.T) {
	all := append(checks.All(), checks.Live()...)
	for _, err := range check.Validate(all) {
		t.Error(err)
	}
	for _, c := range all {
		for _, id := range c.Rules {
			rule, ok := Find(id)
			if !ok {
				t.Errorf("%s names rule %s, which the catalogue does not have", c.ID, id)
			} else if string(rule.Level) != string(c.Level) && rule.Of != Core {
				t.Errorf("the check %s is a %s, but its rule %s is a %s", c.ID, c.Level, id, rule.Level)
			}
		}
	}
}

func TestStaticRulesHaveAReasonOrACheck(t *testing.T) {
	for _, rule := range Rules() {
		static := rule.Level != May && rule.Of == Provider && slices.Contains(rule.Methods(), Static) &&
			slices.Contains(rule.Versions(), V1Beta2) && rule.Family() != "SG"
		checked, why := len(checks.Find(rule.ID)) > 0, Unseen(rule.ID)
		switch {
		case static && !checked && why == "":
			t.Errorf("no check looks at %s: %s", rule.ID, rule.Text)
		case why != "" && (checked || !static):
			t.Errorf("Unseen says why no check covers %s, but a check covers it, or it needs none", rule.ID)
		}
	}
}

// failures collects what Verify reports.
type failures []string

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

func TestVerify(t *testing.T) {
	var got failures
	Verify(&got, filepath.Join(t.TempDir(), "missing"))
	if len(got) != 1 || !strings.Contains(got[0], "no such file") {
		t.Errorf("a path that does not exist fails with %q", got)
	}
	dir := t.TempDir()
	text := "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: []\n"
	if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got = nil
	Verify(&got, dir)
	want := []string{"CT-03 (release-files)", "metadata.yaml:3:1: MUST CT-31 (metadata-form)"}
	if len(got) != len(want) {
		t.Fatalf("Verify reports %q, want %d findings", got, len(want))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("finding %d is %q, want %q", i, got[i], want[i])
		}
	}
}

func TestVerifyWithOptions(t *testing.T) {
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  mode: ${MODE:=plain}\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "infrastructure-components.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(cluster, []byte("kind: Cluster\nspec: {topology: {class: a}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := func(name string) Option { return Variables(map[string]string{name: "true"}) }
	for name, c := range map[string]struct {
		options []Option
		want    string
	}{
		"a variable is given": {[]Option{given("MODE")},
			"RV-17 (variables-text): the value true is not text"},
		"a variable that no file uses": {[]Option{given("MOOD")}, "the release does not use: variable MOOD"},
		"a Cluster whose class is not in the release": {[]Option{Clusters(cluster)},
			"the release does not use: file " + cluster},
		"an older release that does not exist": {[]Option{Against(filepath.Join(dir, "none"))},
			"the release that came before: "},
	} {
		t.Run(name, func(t *testing.T) {
			var got failures
			Verify(&got, dir, c.options...)
			if !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, c.want) }) {
				t.Errorf("Verify reports %q, want %q", got, c.want)
			}
		})
	}
	var got failures
	VerifyUpgrade(&got, dir, dir)
	if slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, "RV-") }) {
		t.Errorf("a release against itself has findings: %q", got)
	}
}

func TestExplain(t *testing.T) {
	for id, want := range map[string][]string{
		"machine-provider-id": {"machine-provider-id (MUST, contract v1beta1, v1beta2)", "Why:", "IM-10", "https://"},
		"IM-10":               {"IM-10 (MUST)", "`spec.providerID`", "machine-provider-id"},
		"IM-41":               {"No check looks at this rule."},
	} {
		var out bytes.Buffer
		if err := Explain(&out, id); err != nil {
			t.Error(err)
		}
		for _, part := range want {
			if !strings.Contains(out.String(), part) {
				t.Errorf("the explanation of %s lacks %q:\n%s", id, part, out.String())
			}
		}
	}
	var unknown *UnknownError
	if err := Explain(&bytes.Buffer{}, "IM-99"); !errors.As(err, &unknown) {
		t.Errorf("Explain accepted an id that does not exist: %v", err)
	}
}
