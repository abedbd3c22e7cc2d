// Package finding defines the result that each part of the extension reports about a Cluster: a reason for programs and
// a message for people. Conditions and Events contain both.
package finding

// Finding says why something may continue, must wait, or has failed. The zero value reports nothing.
type Finding struct {
	// Reason is one CamelCase word. It does not depend on the Cluster.
	Reason string
	// Message is for people: numbers, names and what to do.
	Message string
}

// String returns the message.
func (f Finding) String() string { return f.Message }
