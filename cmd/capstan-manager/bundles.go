package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
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

// check returns an error if the flags don't fit together.
func (b *bundleFlags) check() error {
	switch infrav1.BundleSource(b.source) {
	case "", infrav1.BundlesFromPlane, infrav1.BundlesFromDirectory, infrav1.BundlesFromPackages:
		if b.mirror != "" {
			return errors.New("--bundle-mirror is for --bundle-source Mirror: give both, or neither")
		}
		return nil
	case infrav1.BundlesFromMirror:
	default:
		return fmt.Errorf("--bundle-source can't be %q: give Plane, Directory, Packages or Mirror", b.source)
	}
	u, err := url.Parse(b.mirror)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return errors.New("--bundle-source Mirror needs --bundle-mirror with a URL like https://mirror.example/capstan, " +
			"without a password")
	}
	return nil
}

func (b *bundleFlags) policy() infrav1.BundlePolicy {
	return infrav1.BundlePolicy{
		Source: infrav1.BundleSource(b.source), Mirror: infrav1.BundleMirror{URL: b.mirror},
	}
}
