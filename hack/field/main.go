// Field runs the checks of capstan verify over checkouts of other people's providers, and compares the findings with
// the verdicts of people.
//
//	go run ./hack/field -checkouts DIR     # a directory NAME for each provider of the data file
//	go run ./hack/field -page              # writes the page that lists the findings in each provider
//
// The data file test/verify/testdata/field.yaml has each finding with a verdict, true or false, and the reason. The
// checkouts are not part of this repository. Without them, only the form of the file can be checked, as the tests do.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

func command(args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("field", flag.ContinueOnError)
	flags.SetOutput(errs)
	data := flags.String("data", "test/verify/testdata/field.yaml", "file with the verdicts")
	checkouts := flags.String("checkouts", "", "directory with a checkout of each provider")
	page := flags.Bool("page", false, "write the page that lists the findings in each provider")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	f, err := read(*data)
	if err != nil {
		fmt.Fprintln(errs, "field:", err)
		return 2
	}
	if *page {
		fmt.Fprint(out, f.page())
		return 0
	}
	if *checkouts == "" {
		fmt.Fprintln(errs, "field: name the directory of the checkouts with -checkouts, or ask for the -page")
		return 2
	}
	failed := 0
	debug.SetGCPercent(400) // like capstan verify
	for _, p := range f.Providers {
		got := p.run(*checkouts)
		fmt.Fprintf(out, "%-20s %4d findings %6.2f s\n", p.Name, len(got.findings), got.took.Seconds())
		for _, wrong := range p.differences(got) {
			failed++
			fmt.Fprintf(out, "  %s\n", wrong)
		}
	}
	if failed > 0 {
		fmt.Fprintf(errs, "field: %d differences to %s\n", failed, filepath.Base(*data))
		return 1
	}
	return 0
}
