package local

import "github.com/capstan-dev/capstan/local/nodebundle"

// NodeBundles returns the bundles that the plane of a place gives to owned hosts. If they are to be changed, it makes
// the home directory.
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
