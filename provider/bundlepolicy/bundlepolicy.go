// Package bundlepolicy parses the flags that say where owned hosts get the programs of a node from.
package bundlepolicy

import (
	"errors"
	"fmt"
	"net/url"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// Parse returns the policy that the flags --bundle-source and --bundle-mirror describe. It returns an error if they are
// invalid or don't fit together; two empty texts yield the zero value.
func Parse(source, mirror string) (infrav1.BundlePolicy, error) {
	policy := infrav1.BundlePolicy{
		Source: infrav1.BundleSource(source), Mirror: infrav1.BundleMirror{URL: mirror},
	}
	switch policy.Source {
	case "", infrav1.BundlesFromPlane, infrav1.BundlesFromDirectory, infrav1.BundlesFromPackages:
		if mirror != "" {
			return infrav1.BundlePolicy{}, errors.New("--bundle-mirror is for --bundle-source Mirror: give both, or neither")
		}
		return policy, nil
	case infrav1.BundlesFromMirror:
	default:
		return infrav1.BundlePolicy{}, fmt.Errorf("--bundle-source can't be %q: give Plane, Directory, Packages or Mirror",
			source)
	}
	u, err := url.Parse(mirror)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return infrav1.BundlePolicy{}, errors.New("--bundle-source Mirror needs --bundle-mirror with a URL like " +
			"https://mirror.example/capstan, without a password")
	}
	return policy, nil
}
