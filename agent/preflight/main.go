package preflight

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/capstan-dev/capstan/internal/bundlefile"
)

const usage = `capstan-agent preflight reports what this computer lacks as a node, and the command that provides it.

It changes nothing. The exit code is 1 if something is missing, and 0 if there are warnings only.

Flags:
`

// Main runs "capstan-agent preflight" on a computer and returns the exit code.
func Main(s *System, args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("capstan-agent preflight", flag.ContinueOnError)
	flags.SetOutput(errOut)
	var role Role
	flags.BoolVar(&role.Worker, "worker", false, "skip what only a control plane needs")
	flags.StringVar(&role.Bundles, "bundles", "", "source of a node's programs: plane, directory or packages (default: "+
		"the one in /etc/capstan/agent.yaml, else that of the CapstanHost, else the host's own if it has kubeadm and "+
		"kubelet)")
	flags.StringVar(&role.Kubernetes, "kubernetes", "", "check whether there is a bundle of this Kubernetes "+
		"`version`, like v1.36.3 (default: that of the machine on this host)")
	format := flags.String("output", "table", "`format`: table, or json for programs")
	flags.Usage = func() { fmt.Fprint(errOut, usage); flags.PrintDefaults() }
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if role.Kubernetes != "" && !bundlefile.ValidVersion(role.Kubernetes) {
		fmt.Fprintf(errOut, "capstan-agent preflight: --kubernetes %q is not a version like v1.36.3\n", role.Kubernetes)
		return 2
	}
	if flags.NArg() > 0 || *format != "table" && *format != "json" || !validBundles(role.Bundles) {
		fmt.Fprintln(errOut, "capstan-agent preflight: unknown argument, format or source of bundles: "+
			"see capstan-agent preflight --help")
		return 2
	}
	all := Run(s, role)
	write := table
	if *format == "json" {
		write = list
	}
	if err := write(out, all); err != nil {
		fmt.Fprintln(errOut, "capstan-agent:", err)
		return 1
	}
	if !Fit(all) {
		return 1
	}
	return 0
}

// list prints the findings for programs.
func list(out io.Writer, all []Finding) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(all)
}

// table prints the findings for people.
func table(out io.Writer, all []Finding) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "CHECK\tVERDICT\tFOUND\tMEND")
	for _, f := range all {
		mend := f.Mend
		if mend == "" {
			mend = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Check, f.Verdict, printable(f.Found), mend)
	}
	return w.Flush()
}

// printable replaces unprintable characters: anybody can choose the names of processes and of the host.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
