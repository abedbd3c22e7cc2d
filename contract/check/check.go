// Package check is the framework behind capstan verify, modelled on go/analysis. A check is a value that says what it
// looks for, why that matters, how to fix a finding, what the check needs and how it runs. [Validate] checks a table of
// checks; [Run] runs it over releases. A panic in one check fails that check only.
package check

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/source"
)

// Level says how binding the rules of a check are.
type Level string

// The levels that the catalogue of rules uses.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
)

// Need is something a release must have for a check to run. Without it, the check is skipped and listed in the report.
type Need string

// The needs.
const (
	// Directory is a release directory as clusterctl reads it: metadata, components and templates.
	Directory Need = "a release directory"
	// Complete is a release directory, or a module with its metadata.
	Complete Need = "a release or a module"
	// Metadata is a metadata.yaml file.
	Metadata Need = "metadata.yaml"
	// Components are component files.
	Components Need = "components"
	// Definitions are CustomResourceDefinitions.
	Definitions Need = "definitions"
	// Deployments are Deployments in components.
	Deployments Need = "Deployments"
	// Templates are cluster templates, or Clusters that the user passes in.
	Templates Need = "cluster templates"
	// Classes are files with ClusterClasses.
	Classes Need = "ClusterClasses"
	// Version is the version of the release.
	Version Need = "the version of the release"
	// Installed is a management cluster with the definitions and webhooks of the release installed: see [Driver].
	Installed Need = "a management cluster with the release"
	// Before is an older release of the same provider.
	Before Need = "an older release to compare with (--against)"
)

// Check is one check.
type Check struct {
	// ID is the check's name: lower-case words joined by dashes.
	ID string
	// Doc says in one sentence what must hold.
	Doc string
	// Why says what goes wrong if that does not hold.
	Why string
	// Fix says how to fix a finding.
	Fix string
	// Level is the level of the check's rules.
	Level Level
	// Contracts are the contract versions that the check covers: v1beta1, v1beta2 or both.
	Contracts []string
	// Rules are the catalogue ids of the rules that the check can find broken.
	Rules []string
	// Page is the page of Cluster API's book with the rules, relative to [Book], or a complete URL.
	Page string
	// Fixes says that the check can compute the fix for some of its findings.
	Fixes bool
	// Needs are what the check needs of a release.
	Needs []Need
	// Run examines the files of one release and reports findings. It is nil for a live check.
	Run func(*Pass)
	// Drive takes the place of Run in a live check, which observes what happens to objects in a management cluster.
	Drive func(context.Context, *Pass, Driver)
}

// Book is the URL below which the pages of checks are.
const Book = "https://cluster-api.sigs.k8s.io/developer/providers/contracts/"

// Link returns the URL of the check's page.
func (c *Check) Link() string {
	if strings.HasPrefix(c.Page, "https://") {
		return c.Page
	}
	return Book + c.Page
}

var (
	idForm   = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	ruleForm = regexp.MustCompile(`^[A-Z]+-\d\d\d?$`)
)

// Validate checks a table of checks and returns one error for each mistake.
func Validate(checks []*Check) []error {
	var all []error
	seen := map[string]bool{}
	for _, c := range checks {
		wrong := func(format string, args ...any) {
			all = append(all, fmt.Errorf("check %q "+format, append([]any{c.ID}, args...)...))
		}
		if !idForm.MatchString(c.ID) || seen[c.ID] {
			wrong("has a bad id, or the id of another check")
		}
		seen[c.ID] = true
		for field, text := range map[string]string{"Doc": c.Doc, "Why": c.Why, "Fix": c.Fix} {
			if text == "" || !strings.HasSuffix(text, ".") || strings.Contains(text, "\n") {
				wrong("has no sentence as %s: %q", field, text)
			}
		}
		if c.Level != Must && c.Level != Should {
			wrong("has level %q", c.Level)
		}
		if len(c.Contracts) == 0 || len(c.Rules) == 0 || len(c.Needs) == 0 || c.Page == "" ||
			c.Run == nil && c.Drive == nil {
			wrong("lacks contracts, rules, needs, a page or Run")
		}
		if live := c.Drive != nil; live == (c.Run != nil) && live || live != slices.Contains(c.Needs, Installed) {
			wrong("must have exactly one of Run and Drive, and need %s if it has Drive", Installed)
		}
		for i, rule := range c.Rules {
			if !ruleForm.MatchString(rule) || slices.Contains(c.Rules[:i], rule) {
				wrong("has an invalid rule id, or the same rule twice: %q", rule)
			}
		}
	}
	return all
}

// has reports whether a release has what a check needs.
func has(r *source.Release, need Need) bool {
	switch need {
	case Directory:
		return r.Form == source.Repository
	case Complete:
		return r.Form == source.Repository || r.Form == source.Module
	case Metadata:
		return len(r.Of(source.Metadata)) > 0
	case Components:
		return len(r.Of(source.Components)) > 0
	case Templates:
		return len(r.Of(source.Template))+len(r.Of(source.Given)) > 0
	case Classes:
		return len(r.Of(source.Class)) > 0
	case Version:
		return r.Version != ""
	case Definitions:
		return hasKind(r, "CustomResourceDefinition")
	case Deployments:
		return hasKind(r, "Deployment")
	}
	return false
}

func hasKind(r *source.Release, kind string) bool {
	for _, f := range r.Of(source.Components) {
		if slices.ContainsFunc(f.Objects, func(o *source.Object) bool { return o.Kind() == kind }) {
			return true
		}
	}
	return false
}
