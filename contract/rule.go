package contract

import (
	"slices"
	"strings"
	"sync"
)

// Level says how binding a rule is. A rule whose text begins with a condition ("If ...") has its level only where the
// condition holds; whoever checks the rule evaluates the condition first.
type Level string

// The levels of a rule.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
	May    Level = "MAY"
)

// Party is who must keep a rule.
type Party string

// The parties that rules bind.
const (
	// Provider is the author of a provider's definitions, controllers and manifests.
	Provider Party = "provider"
	// Extension is the author of a runtime extension, or its server.
	Extension Party = "extension"
	// Administrator is whoever runs the management cluster.
	Administrator Party = "administrator"
	// Core is Cluster API's core, or its runtime client. Whoever implements the other side may rely on the rule.
	Core Party = "core"
	// Clusterctl is the command line tool.
	Clusterctl Party = "clusterctl"
	// Anybody means that nobody in particular must keep the rule.
	Anybody Party = "anybody"
)

// Version is a version of what a rule is about.
type Version string

// The versions. Families of provider rules have the two contract versions, V1Beta1 and V1Beta2. Hooks have versions of
// their own, so the families RX, RC, RS, CL, LH and UH have other versions: Seed is the form of the proposals, and
// Published is the form that Cluster API published.
const (
	V1Beta1   Version = "v1beta1"
	V1Beta2   Version = "v1beta2"
	Seed      Version = "seed"
	Published Version = "published"
)

// Method is a way to check a rule.
type Method byte

// The methods of checking a rule.
const (
	// Static needs files only.
	Static Method = 'S'
	// API needs an API server with the definitions, without a controller.
	API Method = 'A'
	// Behaviour needs the controller, extension or clusterctl running.
	Behaviour Method = 'B'
	// Review needs people.
	Review Method = 'R'
)

// Rule is one rule of a contract.
type Rule struct {
	// ID is the family and a number, for example IM-41. See the package's comment for the families.
	ID string `json:"id"`
	// Level says how binding the rule is.
	Level Level `json:"level"`
	// Of is who must keep the rule.
	Of Party `json:"of"`
	// Only is the one version that has the rule. It is empty if both have it.
	Only Version `json:"only,omitempty"`
	// Text says what the rule requires, as Markdown without block elements.
	Text string `json:"text"`
	// SameForm is the form that the rule takes in both versions. It is empty if Forms has the forms or Text says
	// everything.
	SameForm string `json:"form,omitempty"`
	// Forms are the forms that the rule takes in each version, where they differ.
	Forms map[Version]string `json:"forms,omitempty"`
	// Check says how to check the rule: a method, a colon and what to look at. Semicolons separate several. Ids that
	// begin with T- name sequences.
	Check string `json:"check"`
	// Source names documents and their sections: see the package's comment.
	Source string `json:"source"`
}

// Family returns the part of the id before the number, for example IM.
func (r Rule) Family() string {
	name, _, _ := strings.Cut(r.ID, "-")
	return name
}

// Versions returns the versions of the rule's family, older first. The caller must not change them.
func (r Rule) Versions() []Version {
	family, _ := FamilyOf(r.ID)
	return family.Versions
}

// In reports whether a version has the rule.
func (r Rule) In(v Version) bool {
	return slices.Contains(r.Versions(), v) && (r.Only == "" || r.Only == v)
}

// Form returns the form that the rule takes in a version. It is empty if Text says everything or the version does not
// have the rule.
func (r Rule) Form(v Version) string {
	if !r.In(v) {
		return ""
	}
	if form := r.Forms[v]; form != "" {
		return form
	}
	return r.SameForm
}

// Methods returns the ways to check the rule, in the order of Check. There are none if the check of another rule covers
// it.
func (r Rule) Methods() []Method {
	var methods []Method
	for part := range strings.SplitSeq(r.Check, ";") {
		head := strings.TrimSpace(part)
		if end := strings.IndexAny(head, ": "); end >= 0 {
			head = head[:end]
		}
		for letter := range strings.SplitSeq(head, "+") {
			if len(letter) == 1 && strings.Contains("SABR", letter) {
				methods = append(methods, Method(letter[0]))
			}
		}
	}
	return methods
}

var rules = sync.OnceValue(func() []Rule {
	var all []Rule
	for _, f := range families() {
		all = append(all, read[Rule](strings.ToLower(f.Name))...)
	}
	return all
})

// Rules returns all rules, ordered by family and number. The caller may change the slice but not the maps in it.
func Rules() []Rule { return slices.Clone(rules()) }

// Find returns the rule with an id. The second result reports whether there is one.
func Find(id string) (Rule, bool) {
	i := slices.IndexFunc(rules(), func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return rules()[i], true
}
