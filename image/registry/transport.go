//go:build linux

package registry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Bounds of one connection.
const (
	dialLimit   = 10 * time.Second
	answerLimit = 30 * time.Second
)

// base returns the transport of requests. For hosts, it refuses addresses of this machine.
func (p *Puller) base(c Config, forHost bool) *http.Transport {
	d := &net.Dialer{Timeout: dialLimit}
	guarded := &net.Dialer{Timeout: dialLimit, Control: refuseLocal}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if !forHost || c.local(address) || isProxy(address) {
				return d.DialContext(ctx, network, address)
			}
			return guarded.DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: dialLimit, ResponseHeaderTimeout: answerLimit, MaxResponseHeaderBytes: 256 << 10,
		IdleConnTimeout: answerLimit, MaxIdleConnsPerHost: parallel, ForceAttemptHTTP2: true,
	}
}

// errLocal reports that a host tried to reach this machine.
type errLocal struct{ address string }

func (e *errLocal) Error() string {
	return fmt.Sprintf("%s is an address of this machine, which hosts may not reach", e.address)
}

// refuseLocal refuses connections to this machine's addresses, and to loopback, link-local and multicast ones. It runs
// after the lookup, so it checks the address that a name resolves to.
func refuseLocal(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", address, err)
	}
	ip := a.Addr().Unmap()
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast() || isOurs(ip) {
		return &errLocal{address}
	}
	return nil
}

// isOurs reports whether an address belongs to this machine.
func isOurs(ip netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range all {
		if n, is := a.(*net.IPNet); is {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == ip {
				return true
			}
		}
	}
	return false
}

// isProxy reports whether an address belongs to a proxy that the user configured.
func isProxy(address string) bool {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		u, err := url.Parse(os.Getenv(name))
		if err != nil || u.Host == "" {
			continue
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
		}
		if net.JoinHostPort(u.Hostname(), port) == address {
			return true
		}
	}
	return false
}

// again retries a request a few times if the registry is busy or the connection breaks.
func (p *Puller) again(inner http.RoundTripper) http.RoundTripper {
	return transport.NewRetry(inner,
		transport.WithRetryBackoff(transport.Backoff{Duration: p.first(), Factor: 2, Jitter: 0.2, Steps: 4}),
		transport.WithRetryStatusCodes(http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout))
}
