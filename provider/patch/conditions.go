package patch

import (
	"slices"

	"sigs.k8s.io/cluster-api/util/conditions"
)

// maxConditions is how many conditions the API accepts in each of our types.
const maxConditions = 32

// MakeRoom drops conditions until the API accepts the rest. It begins with the last condition, and keeps those whose
// types are listed in own. Others may add conditions to our objects; even if they fill the list, the controller's own
// must fit.
func MakeRoom(object conditions.Setter, own ...string) {
	all := slices.Clone(object.GetConditions())
	for i := len(all) - 1; i >= 0 && len(all) > maxConditions; i-- {
		if !slices.Contains(own, all[i].Type) {
			all = slices.Delete(all, i, i+1)
		}
	}
	if len(all) < len(object.GetConditions()) {
		object.SetConditions(all)
	}
}
