package placement

import (
	"fmt"
	"strings"
)

// obstacle is a reason for which a host can't be taken. The order is the order in explanations.
type obstacle int

const (
	none obstacle = iota
	claimed
	otherZone
	notSelected
	otherVersion
	offline
	unschedulable
	cleaning
	quarantined
	enrolling
	deleting
	obstacles
)

var obstacleText = [obstacles]string{
	claimed:       "claimed",
	otherZone:     "in another zone",
	notSelected:   "without the selected labels",
	otherVersion:  "without the Kubernetes version",
	offline:       "offline",
	unschedulable: "unschedulable",
	cleaning:      "being cleaned",
	quarantined:   "quarantined",
	enrolling:     "not ready yet",
	deleting:      "being deleted",
}

// Explanation says how many hosts fit a request and what stood in the way of the others.
type Explanation struct {
	// Fit and Total count hosts of the inventory.
	Fit, Total int

	obstacles [obstacles]int
}

// String returns one line, for example "0 of 12 hosts fit: 7 claimed, 3 in another zone, 2 offline".
func (e Explanation) String() string {
	if e.Total == 0 {
		return "there are no hosts in this namespace"
	}
	var parts []string
	for o := range obstacles {
		if n := e.obstacles[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, obstacleText[o]))
		}
	}
	line := fmt.Sprintf("%d of %d hosts fit", e.Fit, e.Total)
	if e.Total == 1 {
		line = fmt.Sprintf("%d of 1 host fits", e.Fit)
	}
	if len(parts) > 0 {
		line += ": " + strings.Join(parts, ", ")
	}
	return line
}
