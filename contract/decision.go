package contract

import (
	"slices"
	"sync"
)

// Decision is the reading to follow where sources contradict each other or are outdated.
type Decision struct {
	// ID is D and a number, for example D-38.
	ID string `json:"id"`
	// Finding says what the sources say.
	Finding string `json:"finding"`
	// Reading says what to follow, and why.
	Reading string `json:"reading"`
}

var decisions = sync.OnceValue(func() []Decision { return read[Decision]("decisions") })

// Decisions returns all decisions, by number.
func Decisions() []Decision { return slices.Clone(decisions()) }
