package clusterctl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
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

// enrolment returns the URL of the target's enrolment server. If no such server answers the mover, it reports that and
// returns an empty string: the agents then change sides without an enrolment server.
func (h HandOver) enrolment(ctx context.Context, server string, ca []byte) string {
	at, err := enrolmentServer(ctx, server, ca)
	if err != nil {
		h.tell("warning: the target's enrolment server was not found: " + err.Error() +
			"\n  If the target is a plane, enroll the hosts again after the move (docs/clusterctl.md): until then they get " +
			"no bundles and no new agents from it, and can't come back to it after a long absence. Other management " +
			"clusters have no enrolment server.")
		return ""
	}
	return at
}

// enrolmentServer returns the URL of the target's enrolment server, or why the mover can't reach one. A plane's
// enrolment server uses the port after the API server's, and the same certificate.
func enrolmentServer(ctx context.Context, server string, ca []byte) (string, error) {
	at := enrolmentURL(server)
	if at == "" {
		return "", fmt.Errorf("%s has no port; an enrolment server uses the port after that of the API server", server)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return "", errors.New("there is no certificate authority to verify it with")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+enrolment.VersionPath, nil)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots},
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", at, err)
	}
	defer response.Body.Close()
	var says struct{ Version string }
	if response.StatusCode != http.StatusOK ||
		json.NewDecoder(io.LimitReader(response.Body, probeLimit)).Decode(&says) != nil || says.Version == "" {
		return "", fmt.Errorf("what answers at %s is no enrolment server (%s)", at, response.Status)
	}
	return at, nil
}

// enrolmentURL returns the URL of a server with the next higher port, or an empty string if there is none. Pure.
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
