package main

import (
	"flag"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bundlepolicy"
)

// bundleFlags say where owned hosts get the programs of a node from.
type bundleFlags struct{ source, mirror string }

func (b *bundleFlags) add(flags *flag.FlagSet) {
	flags.StringVar(&b.source, "bundle-source", "", "where owned hosts get the programs of a node from, unless "+
		"spec.bundles of the host or its own configuration says otherwise: Plane, Directory, Packages or Mirror; empty: "+
		"the host's own programs if it has kubeadm and kubelet, else the plane's bundle")
	flags.StringVar(&b.mirror, "bundle-mirror", "", "http(s) URL of the directory with the bundles, for --bundle-source "+
		"Mirror; hosts verify that a bundle has the digest of their plane's")
}

// policy returns the policy of the flags, or an error if they don't fit together.
func (b *bundleFlags) policy() (infrav1.BundlePolicy, error) {
	return bundlepolicy.Parse(b.source, b.mirror)
}
