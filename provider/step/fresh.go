package step

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settle is how old an object must be before its status says that it waits for something that usually takes a moment
// only. Cluster API sets owner, infrastructure and bootstrap data within a second or two of each other, and creation
// times are in whole seconds; writing down each short wait would cost more than it tells. It also outlasts the time by
// which one watch may be behind another.
const Settle = 3 * time.Second

// Fresh reports whether an object was made so shortly ago that a short wait isn't worth a note. One whose creation time
// lies in the future is not: the clocks differ, and it must not wait for that long.
func Fresh(object metav1.Object, now time.Time) bool {
	age := now.Sub(object.GetCreationTimestamp().Time)
	return age >= 0 && age < Settle
}
