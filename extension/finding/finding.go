// Package finding defines what parts of the extension report about a Cluster: a reason for programs and a message for
// people, like the conditions and Events that contain them.
package finding

// Finding says why something may go on, waits or failed. The zero value reports nothing.
type Finding struct {
	// Reason is one CamelCase word. It does not depend on the Cluster.
	Reason string
	// Message is for people: numbers, names and what to do.
	Message string
}

// String returns the message.
func (f Finding) String() string { return f.Message }
