// Package unblock is the emergency exit of an administrator: an object that handlers of a hook hold back is let
// through, once, and everybody sees who did it and why.
//
// The permission is an annotation of the object ([Annotation], made by [Grant]). It names the hook, perhaps one
// extension, who gives it, why, and until when. [Desk] gives it to the client of runtime extensions as its option Pass.
// It works only for an object that is held back at that hook, within an hour, and as long as nobody has changed the
// object's spec. It is taken away before the object goes through, against the version that was read: so it works once.
//
// Whoever may write the object may do this. That is no new right: with it one may also switch extensions off by the
// object's labels.
package unblock
