package contract

import (
	"slices"
	"sync"
)

// Decision says how to read the contracts where their sources contradict each other or are outdated.
type Decision struct {
	// ID is D and a number, for example D-38.
	ID string `json:"id"`
	// Finding describes what the sources say.
	Finding string `json:"finding"`
	// Reading says which reading to follow, and why.
	Reading string `json:"reading"`
}

var decisions = sync.OnceValue(func() []Decision { return read[Decision]("decisions") })

// Decisions returns all decisions, ordered by number.
func Decisions() []Decision { return slices.Clone(decisions()) }
