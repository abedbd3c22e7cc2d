package main

import (
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/local/nodebundle"
)

// warnOfBundles says what owned hosts need if the plane has no bundle of a version. This is only a warning, because a
// mirror or the hosts' own programs may be enough.
func (a *app) warnOfBundles(version string) error {
	store, err := local.NodeBundles(a.place(), false)
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	if text := withoutBundle(all, version); text != "" {
		fmt.Fprintln(a.err, text)
	}
	return nil
}

// withoutBundle returns a warning if no bundle is of a version, or "".
func withoutBundle(all []nodebundle.Bundle, version string) string {
	if slices.ContainsFunc(all, func(b nodebundle.Bundle) bool { return b.Kubernetes == version }) {
		return ""
	}
	return fmt.Sprintf("Warning: the plane has no bundle of Kubernetes %s. Hosts without programs of their own can't "+
		"become nodes.\nBuild and import one with: capstan bundle build, capstan bundle import FILE", version)
}
