package handover

import "github.com/capstan-dev/capstan/agent/journal"

// carried is what a journal records about a machine that the host carries.
type carried struct {
	// claim is the claim's providerID.
	claim string
	// ended is set once the bootstrap has ended; cleaned is set once the host was cleaned after the machine without
	// leftovers.
	ended, cleaned bool
}

// carriedMachines returns the machines that left something in the journals in base. The worker may be writing them.
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
