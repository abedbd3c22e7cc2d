// Package speed holds the measurements of the client: against a floor, which is bare POSTs of the same bytes, and against a peer, which is the
// client that Cluster API uses itself. Only the ratios say something on another machine. It also shows that the peer can call our server.
//
//	go run ./hack/peer ./runtime/internal/speed -count=1 -v
//
// The server is a process of its own, so that what is counted is the client's alone.
package speed
