// Package hookcall calls the handlers of a hook once, as Cluster API would, and returns what each answered and how
// long it took. It is for tools used by people who write or run extensions; it does not retry calls, and does not join
// or hold answers.
//
// The handlers are really called, with all their side effects.
package hookcall
