package baseline

import (
	"strings"

	"golang.org/x/sys/unix"
)

// emptyTrees are where programs of the system make directories on every Node, for what may once be in them. Empty ones
// that are new do nothing there: whoever reads them finds what was there before, nothing. Elsewhere an empty directory
// may turn something on, and is named.
var emptyTrees = []string{
	"/run/systemd/transient",           // systemd's own, for units without files; it stays when the last of them is gone
	"/lib/modules", "/usr/lib/modules", // a hostPath volume of kube-proxy
	"/usr/libexec/kubernetes", // the kubelet's and the controller manager's, for plug-ins of volumes
}

// withoutEmpty returns changes, in the order of a walk, without new directories in emptyTrees that hold nothing. One
// that holds a file, a link, or a directory that others than root may write to, is named as any other. Pure.
func withoutEmpty(changes []change) []change {
	if len(changes) >= mostFound {
		return changes // what is in the last one may not be among them
	}
	named := make([]bool, len(changes))
	for n, c := range changes {
		named[n] = !emptiable(c)
		if !named[n] {
			continue
		}
		for above := range n {
			if strings.HasPrefix(c.path, changes[above].path+"/") {
				named[above] = true
			}
		}
	}
	var kept []change
	for n, c := range changes {
		if named[n] {
			kept = append(kept, c)
		}
	}
	return kept
}

// emptiable reports whether a change is a directory that may be new if nothing is in it.
func emptiable(c change) bool {
	return c.before == nil && c.now != nil && under(c.path, emptyTrees) &&
		c.now.mode == unix.S_IFDIR|0o755 && c.now.uid == 0 && c.now.gid == 0
}
