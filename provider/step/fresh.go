package step

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settle is the age from which an object's status reports waits that usually end within seconds. Cluster API sets
// owner, infrastructure and bootstrap data within a second or two of each other, and creation times are in whole
// seconds; reporting each short wait would cost more writes than it is worth. Settle is also longer than one watch
// usually lags behind another.
const Settle = 3 * time.Second

// Fresh reports whether an object is younger than Settle. An object with a creation time in the future is not Fresh:
// the clocks differ, and its status must not stay without reports until that time.
func Fresh(object metav1.Object, now time.Time) bool {
	age := now.Sub(object.GetCreationTimestamp().Time)
	return age >= 0 && age < Settle
}
