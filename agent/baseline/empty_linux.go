package baseline

import (
	"strings"

	"golang.org/x/sys/unix"
)

// emptyTrees are the directories in which programs of the system create directories on every Node, for later use.
// There, a new empty directory does nothing: programs that read it find nothing, as before. Elsewhere an empty
// directory may turn something on, and is reported.
var emptyTrees = []string{
	"/run/systemd/transient",           // of systemd, for units without files; the directory outlives the last such unit
	"/lib/modules", "/usr/lib/modules", // a hostPath volume of kube-proxy
	"/usr/libexec/kubernetes", // volume plug-ins of the kubelet and the controller manager
}

// withoutEmpty returns changes, in the order of a walk, without new empty directories in emptyTrees. It keeps a
// directory that holds a file or a link. It also keeps one that holds a directory to which users other than root may
// write. Pure.
func withoutEmpty(changes []change) []change {
	if len(changes) >= mostFound {
		return changes // changes may end before the contents of the last directory
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

// emptiable reports whether a change is a directory that doesn't count as a difference while it is empty.
func emptiable(c change) bool {
	return c.before == nil && c.now != nil && under(c.path, emptyTrees) &&
		c.now.mode == unix.S_IFDIR|0o755 && c.now.uid == 0 && c.now.gid == 0
}
