// Package speed holds the measurements of the client: against a floor, which is bare POSTs of the same bytes, against
// a peer, which is the client that Cluster API uses itself, and against variants of the client that leave the
// transport or the encoding to the standard library. Only the ratios say something on another machine. The
// measurements are tests in hack/peer/testdata/speed, which hack/peer lays over this package:
//
//	go run ./hack/peer ./runtime/internal/speed -count=1 -v
//
// The server is a process of its own, so that what is counted is the client's alone.
package speed
