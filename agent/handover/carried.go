package handover

import "github.com/capstan-dev/capstan/agent/journal"

// carried is what a journal records about a machine that is on the host.
type carried struct {
	// claim is the claim's providerID.
	claim string
	// ended reports whether the bootstrap has ended. cleaned reports whether the host was cleaned after this machine
	// and nothing of it is left.
	ended, cleaned bool
}

// carriedMachines returns the machines that appear in the journals in the directory base. The worker may be writing
// these journals meanwhile.
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
