package contract

import (
	"slices"
	"sync"
)

// Sequence is a behaviour test: what to do, and what must then be observed.
//
// READY is status.ready in contract v1beta1 and status.initialization.provisioned in v1beta2; CLUSTER-READY is the same
// of the Cluster. "Quiet" means that the named thing does not happen for some time, 10 seconds unless a test says
// otherwise.
type Sequence struct {
	// ID is T, a family and a number, for example T-IM-05.
	ID string `json:"id"`
	// Rules are the ids of the rules that the sequence checks.
	Rules []string `json:"rules"`
	// Do says what to do.
	Do string `json:"do"`
	// Assert says what must be observed.
	Assert string `json:"assert"`
}

var sequences = sync.OnceValue(func() []Sequence { return read[Sequence]("sequences") })

// Sequences returns all behaviour tests, by family and number.
func Sequences() []Sequence { return slices.Clone(sequences()) }
