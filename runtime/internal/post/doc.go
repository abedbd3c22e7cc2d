// Package post sends requests of hooks: HTTP/1.1 POST over TLS, on connections that are kept.
//
// It exists beside net/http because a call of a hook is short, and most of its time is overhead. One goroutine writes
// the request and reads the answer, where net/http hands both to two more; a timeout is a deadline of the connection,
// where net/http needs a context of its own. A call costs about half of the time and a third of the allocations.
// docs/adr/0006 has the figures.
//
// What it does not do, because hooks have no use for it: proxies, HTTP/2, redirects, compression, cookies, bodies that
// stream.
package post
