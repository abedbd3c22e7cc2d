package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
)

// field is the data file.
type field struct {
	// Date is when the checkouts were judged.
	Date string `json:"date"`
	// Providers are the judged providers, by name.
	Providers []provider `json:"providers"`
	// Bugs are bugs that users reported, with what the checks say about them.
	Bugs []bug `json:"bugs"`
}

// provider is one checkout.
type provider struct {
	Name       string `json:"name"`
	Repository string `json:"repository"`
	// Version is a tag or a branch. Commit is empty for a published Go module.
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Path is the path to verify below the checkout. Empty: the whole checkout.
	Path string `json:"path,omitempty"`
	// Note says what was done to the checkout, or what is special about it.
	Note string `json:"note,omitempty"`
	// Refused is part of the error if the components cannot be rendered.
	Refused string `json:"refused,omitempty"`
	// Findings are the findings, with verdicts.
	Findings []finding `json:"findings,omitempty"`
}

// finding is one finding, or several that differ only in their place.
type finding struct {
	Check    string `json:"check"`
	Rule     string `json:"rule"`
	Contract string `json:"contract,omitempty"`
	Verdict  bool   `json:"verdict"`
	Reason   string `json:"reason"`
	// Places are the file, object and field of each finding, as [place] formats them.
	Places []string `json:"places"`
}

// place returns file, object and field in one line. It identifies a definition by its name.
func place(file, object, field string) string {
	object = strings.TrimPrefix(object, "CustomResourceDefinition ")
	return strings.TrimRight(strings.Join([]string{file, object, field}, " | "), " |")
}

// bug is a bug that a user reported.
type bug struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Frozen says that we looked for the bug only after we had written the checks.
	Frozen bool `json:"frozen,omitempty"`
	// Bad and Fixed are revisions. Empty: not in the project's public history.
	Bad   string `json:"bad,omitempty"`
	Fixed string `json:"fixed,omitempty"`
	// Check is the check that finds the bug. Empty: none does.
	Check  string `json:"check,omitempty"`
	Result string `json:"result"`
}

// key names a finding at a place.
func (f finding) key(place string) string {
	return strings.Join([]string{f.Check, f.Rule, f.Contract, place}, " | ")
}

func read(name string) (*field, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var f field
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return &f, nil
}

// verdicts returns how many findings are true, and how many false.
func (f *field) verdicts() (right, wrong int) {
	for _, p := range f.Providers {
		r, w := p.verdicts()
		right, wrong = right+r, wrong+w
	}
	return right, wrong
}

func (p provider) verdicts() (right, wrong int) {
	for _, one := range p.Findings {
		if one.Verdict {
			right += len(one.Places)
		} else {
			wrong += len(one.Places)
		}
	}
	return right, wrong
}

// levels returns the numbers of findings about MUST rules and about SHOULD rules.
func (p provider) levels() (must, should int) {
	for _, one := range p.Findings {
		if of := checks.Find(one.Check); len(of) > 0 && of[0].Level == check.Must {
			must += len(one.Places)
		} else {
			should += len(one.Places)
		}
	}
	return must, should
}

// page returns the page that lists the findings in each provider.
func (f *field) page() string {
	var b strings.Builder
	right, wrong := f.verdicts()
	must := 0
	for _, p := range f.Providers {
		n, _ := p.levels()
		must += n
	}
	b.WriteString("# Findings of capstan verify in other providers\n\n" +
		"<!-- Made from test/verify/testdata/field.yaml by hack/field: change that file, and run make generate. -->\n\n")
	b.WriteString(wrap("", fmt.Sprintf("We ran the checks of `capstan verify` over the sources of %d provider versions "+
		"on %s. People then compared each finding with the provider's files: %d findings are true, and %d false. %d "+
		"findings are about MUST rules. The others are about SHOULD rules, and are warnings. A true finding means that "+
		"the files of this version break a rule. The provider may work in spite of it, because many rules matter only "+
		"for some users, or for some versions of Cluster API. Later versions of a provider, or later checks, can lead to "+
		"other findings. `make test-field CHECKOUTS=DIR` runs the checks over the checkouts in DIR and compares the "+
		"findings with those below.", len(f.Providers), f.Date, right, wrong, must)))
	b.WriteString("\n" + wrap("", "The table counts the findings by level. The sections after it show the check, the "+
		"rule and the reason for each finding. [checks/README.md](checks/README.md) explains the checks and rules."))
	fmt.Fprint(&b, "\n| Provider | Version | MUST | SHOULD |\n|---|---|---|---|\n")
	for _, p := range f.Providers {
		version := p.Version
		if p.Commit != "" {
			version += " `" + p.Commit + "`"
		}
		if p.Refused != "" {
			version += ", components not checked"
		}
		must, should := p.levels()
		fmt.Fprintf(&b, "| %s (%s) | %s | %d | %d |\n", p.Repository, p.Name, version, must, should)
	}
	for _, p := range f.Providers {
		if len(p.Findings) == 0 && p.Note == "" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s %s (%s)\n\n", p.Repository, p.Version, p.Name)
		if p.Note != "" {
			b.WriteString(wrap("", p.Note))
		}
		if len(p.Findings) > 0 && p.Note != "" {
			fmt.Fprintln(&b)
		}
		for _, text := range p.lines() {
			b.WriteString(wrap("- ", text))
		}
	}
	f.bugs(&b)
	return b.String()
}

// lines returns one line for each combination of check, rule and reason.
func (p provider) lines() []string {
	var all []string
	count := map[string]int{}
	for _, one := range p.Findings {
		text := fmt.Sprintf("`%s` (%s): %s", one.Check, one.Rule, one.Reason)
		if !one.Verdict {
			text += " The finding is false."
		}
		if count[text] == 0 {
			all = append(all, text)
		}
		count[text] += len(one.Places)
	}
	for i, text := range all {
		if n := count[text]; n > 1 {
			all[i] += fmt.Sprintf(" Found %d times.", n)
		}
	}
	return slices.Clip(all)
}

func (f *field) bugs(b *strings.Builder) {
	b.WriteString("\n## Reported bugs\n\n" + wrap("", "This section lists bugs that users reported. We ran the "+
		"checks over the revisions before and after the fix. For each bug, the list shows the issue, the check that finds "+
		"the bug (if one does), and what we found out. \"Looked for afterwards\" marks bugs that we looked for only after "+
		"we had written the checks.") + "\n")
	for _, one := range f.Bugs {
		name := one.Name
		if one.Frozen {
			name += " (looked for afterwards)"
		}
		if one.Check != "" {
			name += ", `" + one.Check + "`"
		}
		b.WriteString(wrap("- ", name+": "+one.What+" "+one.Result))
	}
}

// wrap breaks a text into lines that fit the width of a page. Later lines are indented to align with the text of the
// first.
func wrap(bullet, text string) string {
	const width = 118
	var b strings.Builder
	line := bullet
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > width:
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", len(bullet)) + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}
