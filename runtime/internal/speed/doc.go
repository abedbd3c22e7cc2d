// Package speed holds measurements of the client. They compare it with a floor, which is bare POSTs of the same bytes;
// with a peer, which is Cluster API's own client; and with variants of the client that use the standard library's
// transport or encoding. Only the ratios are meaningful on other machines. The measurements are tests in
// hack/peer/testdata/speed, which hack/peer adds to this package:
//
//	go run ./hack/peer ./runtime/internal/speed -count=1 -v
//
// The server runs in a separate process, so that only the client is measured.
package speed
