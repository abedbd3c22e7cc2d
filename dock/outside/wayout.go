//go:build linux

package outside

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/dnsname"
)

// WayOut is the name of the socket, in the dock's directory, through which the plane reaches API servers of clusters
// outside the dock. It serves an HTTP proxy that supports CONNECT only.
const WayOut = "out.sock"

const (
	// wayOutConnections bounds the concurrent connections.
	wayOutConnections = 512
	// wayOutDial bounds how long it may take to resolve a remote computer's name and to connect to it.
	wayOutDial = 10 * time.Second
	// wayOutAddresses bounds how many addresses of a name are tried.
	wayOutAddresses = 8
)

// keepWayOut serves the proxy until ctx ends.
func keepWayOut(ctx context.Context, c Config) {
	path := filepath.Join(c.Dir, WayOut)
	_ = os.Remove(path) // a leftover of a killed dock
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600) // in addition, nobody else can enter the directory
	}
	if err != nil {
		c.Log.Printf("serving the proxy to computers outside of the dock: %v", err)
		return
	}
	w := &wayOut{
		slots: make(chan struct{}, wayOutConnections), machine: net.InterfaceAddrs, lookup: net.DefaultResolver.LookupNetIP,
		carried: map[net.Conn]bool{},
	}
	server := &http.Server{
		Handler: w, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
		ErrorLog: c.Log,
	}
	stop := context.AfterFunc(ctx, func() {
		server.Close()
		w.end()
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		c.Log.Printf("serving the proxy to computers outside of the dock: %v", err)
	}
}

// wayOut is the proxy.
type wayOut struct {
	slots   chan struct{}
	machine func() ([]net.Addr, error)
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// open reports whether the proxy may connect to an address; nil allows the addresses of all other computers.
	open func(netip.Addr) bool

	mu      sync.Mutex
	carried map[net.Conn]bool
	ended   bool
}

// ServeHTTP forwards one connection.
func (w *wayOut) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(out, "only CONNECT", http.StatusMethodNotAllowed)
		return
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		http.Error(out, "the request must name a computer and a port: HOST:PORT", http.StatusBadRequest)
		return
	}
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	default:
		http.Error(out, "too many connections", http.StatusServiceUnavailable)
		return
	}
	far, code, err := w.dial(host, port)
	if err != nil {
		http.Error(out, err.Error(), code)
		return
	}
	defer far.Close()
	out.WriteHeader(http.StatusOK)
	near, buffered, err := http.NewResponseController(out).Hijack()
	if err != nil {
		return
	}
	defer near.Close()
	if !w.carry(near, far) {
		return
	}
	defer w.drop(near, far)
	go func() {
		_, _ = io.Copy(far, buffered.Reader) // including what was already read
		closeWrite(far)
	}()
	_, _ = io.Copy(near, far)
}

// dial connects to another computer. If that fails, it returns the status code to answer with. dial resolves a name
// once and connects only to its allowed addresses, so that the addresses can't change between the check and the
// connection.
func (w *wayOut) dial(host, port string) (far net.Conn, code int, err error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, http.StatusBadRequest, errors.New("the port in the request must be a number")
	}
	// Don't use the request's context: it ends when the client has finished sending, but the client may still read.
	ctx, cancel := context.WithTimeout(context.Background(), wayOutDial)
	defer cancel()
	addresses, code, err := w.resolve(ctx, host)
	if err != nil {
		return nil, code, err
	}
	addresses = slices.DeleteFunc(addresses, func(a netip.Addr) bool { return !w.allowed(a) })
	if len(addresses) == 0 {
		return nil, http.StatusForbidden, errors.New("the way out of the dock leads only to other computers")
	}
	dialer := net.Dialer{Timeout: wayOutDial / time.Duration(len(addresses))}
	var failed error
	for _, a := range addresses {
		far, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(a, uint16(number)).String())
		if err == nil {
			return far, 0, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, http.StatusBadGateway, failed
}

// resolve returns the addresses of a computer, given its name or address. If it can't, it returns the status code to
// answer with.
func (w *wayOut) resolve(ctx context.Context, host string) ([]netip.Addr, int, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, 0, nil
	}
	if !dnsname.Valid(host) {
		return nil, http.StatusBadRequest, errors.New("the host in the request is neither an address nor a valid name")
	}
	addresses, err := w.lookup(ctx, "ip", host)
	if err != nil {
		return nil, http.StatusBadGateway, err
	}
	return addresses[:min(len(addresses), wayOutAddresses)], 0, nil
}

// allowed reports whether an address belongs to another computer. Whoever creates a cluster chooses its endpoint, and
// must not be able to make the plane connect to servers on this machine.
func (w *wayOut) allowed(to netip.Addr) bool {
	if w.open != nil {
		return w.open(to)
	}
	to = to.Unmap()
	if !to.IsGlobalUnicast() || to.Zone() != "" {
		return false
	}
	own, err := w.machine()
	if err != nil {
		return false
	}
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == to {
			return false
		}
	}
	return true
}

// carry registers connections, so that they are closed when the dock stops. It returns false if that has happened.
func (w *wayOut) carry(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.carried[c] = true
	}
	return !w.ended
}

func (w *wayOut) drop(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		delete(w.carried, c)
	}
}

func (w *wayOut) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for c := range w.carried {
		c.Close()
	}
}

func closeWrite(c net.Conn) {
	if half, is := c.(interface{ CloseWrite() error }); is {
		_ = half.CloseWrite()
	}
}
