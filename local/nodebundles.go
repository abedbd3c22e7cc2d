package local

import "github.com/capstan-dev/capstan/local/nodebundle"

// NodeBundles returns the store of the bundles that the plane of a place offers to owned hosts. If change is true,
// NodeBundles creates the home directory.
func NodeBundles(p Place, change bool) (nodebundle.Store, error) {
	dir, err := homeDir(p.Home)
	if err != nil {
		return nodebundle.Store{}, err
	}
	if change {
		if _, err := dir.Prepare(); err != nil {
			return nodebundle.Store{}, err
		}
	}
	return nodebundle.Store{Dir: dir.NodeBundles()}, nil
}
