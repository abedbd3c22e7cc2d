// Command capstan-kube is one bundle: the programs of one Kubernetes release in one static binary.
//
// The program (the applet) is chosen by the name the binary is called by, so that a link named kubelet is a kubelet,
// and else by the first argument: "capstan-kube kubelet --help". Everything is the real thing except what a host
// without a container runtime can't have: the kubelet applet runs without cgroups, and the cri applet runs only the
// components of a control plane as processes.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// binaryName is the name under which the first argument picks the applet.
const binaryName = "capstan-kube"

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// run picks the applet for args and returns its exit code: 2 when there is none.
// Applets read os.Args themselves, as the programs they come from do, so run makes os.Args look as if they were called
// by their own name.
func run(args []string, stdout, stderr io.Writer) int {
	name, rest := pick(args)
	a, ok := applets[name]
	if !ok {
		fmt.Fprintf(stderr, "%s: no applet named %q; call it as one of: %s\n", binaryName, name, strings.Join(names(), ", "))
		return 2
	}
	os.Args = rest
	return a(rest[1:], stdout, stderr)
}

// pick returns the applet's name and the command line it shall see. Unknown names fall through to the first argument,
// so that a copy of the binary under any other name still works.
func pick(args []string) (name string, rest []string) {
	if len(args) == 0 {
		return "", nil
	}
	called := filepath.Base(args[0])
	if _, ok := applets[called]; ok {
		return called, args
	}
	if len(args) < 2 {
		return "", nil
	}
	return args[1], args[1:]
}

// names lists the applets in alphabetical order.
func names() []string {
	all := make([]string, 0, len(applets))
	for name := range applets {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
