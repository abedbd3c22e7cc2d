package step

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settle is how old an object must be before its status reports a wait that is usually short. Cluster API sets owner,
// infrastructure and bootstrap data within a second or two of each other, and creation times are in whole seconds;
// reporting each short wait would cost more writes than it is worth. Settle is also longer than one watch usually lags
// behind another.
const Settle = 3 * time.Second

// Fresh reports whether an object is younger than Settle. An object with a creation time in the future is not Fresh:
// the clocks differ, and its status must not wait that long.
func Fresh(object metav1.Object, now time.Time) bool {
	age := now.Sub(object.GetCreationTimestamp().Time)
	return age >= 0 && age < Settle
}
