// Package hookcall calls the handlers of a hook once, as Cluster API would, and says what each answered and how fast.
// It is for tools of people who write or run extensions; nothing is retried, joined or held.
//
// The handlers are really called: what they do outside of their answer, they do.
package hookcall
