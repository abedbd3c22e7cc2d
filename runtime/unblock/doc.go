// Package unblock is an administrator's emergency exit: it lets an object through, once, although handlers of a hook
// hold it back. Everybody can see who did it and why.
//
// The permission is an annotation of the object ([Annotation], written by [Grant]). It names the hook, optionally one
// extension, who grants it, why, and until when. [Desk] passes it to the client of runtime extensions as its option
// Pass. It is valid only for an object that is held back at that hook, for at most an hour, and as long as nobody has
// changed the object's spec. The permission is removed before the object goes through, with the version that was read
// as a precondition, so it works only once.
//
// Everyone who may write the object may do this. That adds no privilege: with the same right, one can also switch
// extensions off by changing the object's labels.
package unblock
