package placement

import (
	"fmt"
	"strings"
)

// obstacle is a reason why a host can't be taken. Explanations list obstacles in the order below.
type obstacle int

const (
	none obstacle = iota
	claimed
	otherZone
	notSelected
	otherHardware
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
	otherHardware: "without the required hardware",
	otherVersion:  "without the Kubernetes version",
	offline:       "offline",
	unschedulable: "unschedulable",
	cleaning:      "being cleaned",
	quarantined:   "quarantined",
	enrolling:     "not ready yet",
	deleting:      "being deleted",
}

// obstacleName maps obstacles to the reasons used in metrics.
var obstacleName = [obstacles]string{
	claimed:       "claimed",
	otherZone:     "other_zone",
	notSelected:   "not_selected",
	otherHardware: "other_hardware",
	otherVersion:  "other_version",
	offline:       "offline",
	unschedulable: "unschedulable",
	cleaning:      "cleaning",
	quarantined:   "quarantined",
	enrolling:     "not_ready",
	deleting:      "deleting",
}

// NoHosts is the reason that Reasons returns for an inventory without hosts.
const NoHosts = "no_hosts"

// Explanation says how many hosts fit a request and why the others don't.
type Explanation struct {
	// Fit and Total count hosts of the inventory.
	Fit, Total int

	obstacles [obstacles]int
}

// Reasons returns the obstacles that hosts had, each once: claimed, other_zone, not_selected, other_hardware,
// other_version, offline, unschedulable, cleaning, quarantined, not_ready or deleting. For an empty inventory it
// returns only NoHosts.
func (e Explanation) Reasons() []string {
	if e.Total == 0 {
		return []string{NoHosts}
	}
	var names []string
	for o, n := range e.obstacles {
		if n > 0 {
			names = append(names, obstacleName[o])
		}
	}
	return names
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
