// Command checkdocs writes a page for each check of capstan verify, and an index, from the table of checks and the
// catalog of rules.
//
//	go run ./hack/checkdocs docs/checks
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: checkdocs OUTPUT-DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "checkdocs:", err)
		os.Exit(1)
	}
}

// run writes all pages, and removes the pages of checks that no longer exist.
func run(to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	all := pages()
	old, err := filepath.Glob(filepath.Join(to, "*.md"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, ok := all[filepath.Base(name)]; !ok {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(to, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pages returns the text of each page by file name.
func pages() map[string]string {
	all := map[string]string{"README.md": index()}
	for _, c := range slices.Concat(checks.All(), checks.Live()) {
		all[c.ID+".md"] = page(c)
	}
	return all
}

const generated = "<!-- made by hack/checkdocs: run make generate -->\n"

func index() string {
	var b strings.Builder
	b.WriteString("# Checks of capstan verify\n\n" + generated + "\n")
	b.WriteString(wrap("Each check looks for one thing in the files of a provider. [docs/verify.md](../verify.md) "+
		"says how to run the checks.", ""))
	fmt.Fprintf(&b, "\n| Check | Level | Rules |\n|---|---|---|\n")
	for _, c := range slices.Concat(checks.All(), checks.Live()) {
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s |\n", c.ID, c.ID, c.Level, strings.Join(c.Rules, " "))
	}
	b.WriteString("\n## What files do not show\n\n")
	b.WriteString(wrap("Files show only in part, or not at all, whether a provider keeps these rules. To check them, you "+
		"need a running provider, or people who read the provider's documents and code. The list omits rules of level "+
		"MAY, so the numbers in it have gaps.", ""))
	b.WriteString("\n" + wrap("`contract/doc.go` lists the documents that the rules cite by number, such as 003. "+
		decided("D-09")+" *Derived* marks our conclusions from the documents; *upstream only* marks what is only in "+
		"Cluster API's book or code.", ""))
	for _, l := range contract.Live() {
		fmt.Fprintf(&b, "\n%s", wrap(fmt.Sprintf("- %s (%s, %s): %s", l.Rule, l.Level, l.By, l.Text), "  "))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func page(c *check.Check) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n%s\n", c.ID, generated, wrap(c.Doc, ""))
	needs := make([]string, 0, len(c.Needs))
	for _, n := range c.Needs {
		needs = append(needs, string(n))
	}
	fmt.Fprintf(&b, "- Level: %s\n- Contract: %s\n- Needs: %s\n", c.Level, strings.Join(c.Contracts, ", "),
		strings.Join(needs, ", "))
	if c.Fixes {
		b.WriteString("- `--fix` corrects the value if it is on one line of the file\n")
	}
	fmt.Fprintf(&b, "- Source: <%s>\n\n## Why\n\n%s\n## What to do\n\n%s\n## Rules\n", c.Link(), wrap(c.Why, ""),
		wrap(c.Fix, ""))
	rules := b.Len()
	for _, id := range c.Rules {
		rule, ok := contract.Find(id)
		if !ok {
			continue // a test of the table reports this
		}
		fmt.Fprintf(&b, "\n%s", wrap(fmt.Sprintf("- %s (%s): %s", rule.ID, rule.Level, rule.Text), "  "))
		for _, v := range rule.Versions() {
			if form := rule.Form(v); form != "" {
				b.WriteString(wrap(fmt.Sprintf("  - %s: %s", v, form), "    "))
			}
		}
	}
	if text := notes(b.String()[rules:]); text != "" {
		b.WriteString("\n" + wrap(text, ""))
	}
	b.WriteString("\n## To accept a finding\n\n" +
		wrap("Add this entry to your [baseline file](../verify.md#baseline), with the rule that the finding names:", ""))
	fmt.Fprintf(&b, "\n    - check: %s\n      rule: %s\n", c.ID, c.Rules[0])
	b.WriteString("      reason: why your project accepts it\n")
	return b.String()
}

var (
	document = regexp.MustCompile(`\bdocument 00\d\b`)
	decision = regexp.MustCompile(`\bD-\d\d\b`)
)

// notes returns explanations of the documents, decisions and marks that occur in the text of rules.
func notes(rules string) string {
	rules = strings.Join(strings.Fields(rules), " ") // no line breaks
	var all []string
	if document.MatchString(strings.ToLower(rules)) {
		all = append(all, "`contract/doc.go` lists the documents that the rules cite by number.")
	}
	if id := decision.FindString(rules); id != "" {
		all = append(all, decided(id))
	}
	if strings.Contains(rules, "*derived*") {
		all = append(all, "*Derived* marks our conclusions from the documents.")
	}
	if strings.Contains(rules, "*upstream only*") {
		all = append(all, "*Upstream only* marks what is only in Cluster API's book or code.")
	}
	return strings.Join(all, " ")
}

// decided returns an explanation of the ids of decisions. The parameter is such an id.
func decided(example string) string {
	return "`contract/data/decisions.yaml` has our decisions, such as " + example +
		", on points where Cluster API's documents and code contradict each other."
}

// width is the maximum number of columns of a Markdown line.
const width = 118

// wrap breaks a text into lines, with an indentation for all but the first.
func wrap(text, indent string) string {
	lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
	var b strings.Builder
	line := lead
	for word := range strings.FieldsSeq(text) {
		switch {
		case strings.TrimSpace(line) == "":
			line += word
		case len(line)+1+len(word) > width:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}
