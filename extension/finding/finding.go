// Package finding is what parts of the extension say about a Cluster: a reason for programs and a message for people,
// like the conditions and Events that they end in.
package finding

// Finding says why something may go on, waits or failed. The zero value says nothing.
type Finding struct {
	// Reason is one CamelCase word. It is the same for every Cluster that it is true of.
	Reason string
	// Message is for people: numbers, names, and what to do.
	Message string
}

// String returns the message.
func (f Finding) String() string { return f.Message }
