package placement

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// notEnrolled selects hosts that have not enrolled: those that a balancer of the management plane reaches.
var notEnrolled = func() labels.Requirement {
	r, err := labels.NewRequirement(infrav1.EnrolledLabel, selection.DoesNotExist, nil)
	if err != nil {
		panic(err) // can't happen: the label is valid
	}
	return *r
}()

// Local returns the selector, narrowed to hosts that have not enrolled. Clusters with a balancer of the management
// plane need this, because the balancer does not reach enrolled hosts.
func Local(selector labels.Selector) labels.Selector { return selector.Add(notEnrolled) }
