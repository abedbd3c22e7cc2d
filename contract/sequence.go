package contract

import (
	"slices"
	"sync"
)

// Sequence is a behaviour test: what to do, and what must then be observed.
//
// READY means status.ready in contract v1beta1 and status.initialization.provisioned in v1beta2; CLUSTER-READY means
// the same field of the Cluster. "Quiet" means that something does not happen for a while, 10 seconds unless the test
// says otherwise.
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

// Sequences returns all behaviour tests, ordered by family and number.
func Sequences() []Sequence { return slices.Clone(sequences()) }
