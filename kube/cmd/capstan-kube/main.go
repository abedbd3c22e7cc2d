// Command capstan-kube is one bundle: the programs of one Kubernetes release in one static binary.
//
// The name by which the binary is called selects the program (the applet), so a link named kubelet is a kubelet. If
// that is not the name of an applet, the first argument selects the program: "capstan-kube kubelet --help". The
// programs are upstream's, with some exceptions. The kubelet applet runs without cgroups; kubeadm and kube-proxy are
// adapted (see runKubeadm and package proxy). The cri applet, a small CRI server, is our own, and so are the metrics
// API and the tools of package tool.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// binaryName is the name under which the first argument selects the applet.
const binaryName = "capstan-kube"

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// run selects the applet for args and returns its exit code, or 2 if there is none. Applets read os.Args themselves, as
// the original programs do, so run makes os.Args look as if the applet was called by its own name.
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

// pick returns the applet's name and its command line. Under an unknown name the first argument counts, so that a copy
// of the binary under any other name still works.
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
