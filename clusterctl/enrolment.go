package clusterctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

const (
	// probeTimeout limits the search for the target's enrolment server.
	probeTimeout = 5 * time.Second
	// probeLimit is the maximum size of the server's answer, in bytes.
	probeLimit = 4 << 10
)

// enrolmentServer returns the URL of the target's enrolment server, or an empty string if the target has none that the
// mover can reach. A plane has it at the port after its API server's, with the same certificate.
func enrolmentServer(ctx context.Context, server string, ca []byte) string {
	at := enrolmentURL(server)
	roots := x509.NewCertPool()
	if at == "" || !roots.AppendCertsFromPEM(ca) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+enrolment.VersionPath, nil)
	if err != nil {
		return ""
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	var says struct{ Version string }
	if response.StatusCode != http.StatusOK ||
		json.NewDecoder(io.LimitReader(response.Body, probeLimit)).Decode(&says) != nil || says.Version == "" {
		return ""
	}
	return at
}

// enrolmentURL returns the URL with the port after a server's, or an empty string if there is none. Pure.
func enrolmentURL(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 65535 {
		return ""
	}
	return "https://" + net.JoinHostPort(u.Hostname(), strconv.FormatUint(port+1, 10))
}
