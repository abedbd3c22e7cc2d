package kubelet

import (
	"errors"
	"io"
	"net/http"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Limits of the wait for an API server that isn't up yet.
const (
	patience = 10 * time.Second
	retryMin = 20 * time.Millisecond
	retryMax = 250 * time.Millisecond
)

// patient is a transport for the time when nobody listens at the API server's address yet. It retries the requests of
// informers and the registration of the Node for a while before it reports the error.
//
// The kubelet of a control plane starts before its API server. Its informers and its registration would back off for
// many seconds, and the whole start-up would wait for them. Quick retries cost only refused connections on the same
// host. Other requests still fail at once: some of the kubelet's loops wait for their answers, and static pods need
// those loops.
type patient struct {
	next  http.RoundTripper
	limit time.Duration
}

// bePatient makes all requests of a client patient. It must be called before the client is used.
func bePatient(client kubernetes.Interface) {
	rc, ok := client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || rc == nil || rc.Client == nil {
		return // an unknown kind of client: its requests fail as usual
	}
	// All API groups of a clientset share this HTTP client.
	next := rc.Client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	rc.Client.Transport = &patient{next: next, limit: patience}
}

// WrappedRoundTripper returns the inner transport, for client-go.
func (p *patient) WrappedRoundTripper() http.RoundTripper { return p.next }

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	deadline := time.Now().Add(p.limit)
	for pause := retryMin; ; pause = min(2*pause, retryMax) {
		resp, err := p.next.RoundTrip(req)
		if err == nil || !worthWaiting(req) || !again(req, err) || time.Now().Add(pause).After(deadline) {
			return resp, err
		}
		select {
		case <-req.Context().Done():
			return nil, err
		case <-time.After(pause):
		}
		if req, err = rewound(req); err != nil {
			return nil, err
		}
	}
}

// worthWaiting reports whether the request comes from an informer or registers the Node.
func worthWaiting(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet:
		query := req.URL.Query()
		return query.Has("watch") || query.Has("limit") // a watch, or a paged list
	case http.MethodPost:
		return req.URL.Path == "/api/v1/nodes"
	}
	return false
}

// again reports whether a request that failed with err had no effect and can be sent again.
func again(req *http.Request, err error) bool {
	if hasBody(req) && req.GetBody == nil {
		return false
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	// A load balancer without a working backend accepts the connection and closes it. Then only reading requests may be
	// sent again.
	reads := req.Method == http.MethodGet || req.Method == http.MethodHead
	return reads && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
}

// rewound returns the request with its body at the beginning.
func rewound(req *http.Request) (*http.Request, error) {
	if !hasBody(req) {
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Body = body
	return req, nil
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }
