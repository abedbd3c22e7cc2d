package handover

import "github.com/capstan-dev/capstan/agent/journal"

// carried is what a journal says of a machine that the host carries.
type carried struct {
	// claim is the provider id.
	claim string
	// ended is true when its bootstrap ended, cleaned when the host was cleaned after it and nothing was left.
	ended, cleaned bool
}

// carriedMachines lists the machines that left something in the journals at base. The worker may be writing them.
func carriedMachines(base string) ([]carried, error) {
	views, err := journal.Look(base)
	if err != nil {
		return nil, err
	}
	var all []carried
	for _, v := range views {
		cleaned, _ := v.Cleaned()
		if v.Carries() || v.Began() || v.Outcome().Ended {
			all = append(all, carried{claim: v.Claim(), ended: v.Outcome().Ended, cleaned: cleaned && !v.Carries()})
		}
	}
	return all, nil
}
