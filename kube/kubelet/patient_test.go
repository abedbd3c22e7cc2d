package kubelet

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// freeAddress returns a loopback address at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestPatientWaitsForTheServer(t *testing.T) {
	address := freeAddress(t)
	bodies := make(chan string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	})}
	refused := make(chan struct{}, 1)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: &patient{next: roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := transport.RoundTrip(req)
		if err != nil {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
		return resp, err
	}), limit: 20 * time.Second}}
	done := make(chan error, 1)
	go func() {
		resp, err := client.Post("http://"+address+"/api/v1/nodes", "text/plain", strings.NewReader("hello"))
		if err == nil {
			err = resp.Body.Close()
		}
		done <- err
	}()
	<-refused // at least one request has failed
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	defer server.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := <-bodies; got != "hello" {
		t.Errorf("the server got the body %q, want it whole", got)
	}
}

func TestPatienceEnds(t *testing.T) {
	client := http.Client{Transport: &patient{next: http.DefaultTransport, limit: 100 * time.Millisecond}}
	_, err := client.Get("http://" + freeAddress(t) + "/api/v1/pods?limit=500")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want connection refused", err)
	}
}

func TestWorthWaiting(t *testing.T) {
	cases := map[string]struct {
		method, url string
		want        bool
	}{
		"a list that an informer requests": {
			http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName%3Dx&limit=500&resourceVersion=0", true,
		},
		"a watch":                  {http.MethodGet, "/api/v1/services?allowWatchBookmarks=true&watch=true", true},
		"the Node's registration":  {http.MethodPost, "/api/v1/nodes", true},
		"one object":               {http.MethodGet, "/api/v1/nodes/first", false},
		"an object from the cache": {http.MethodGet, "/api/v1/nodes/first?resourceVersion=0", false},
		"a certificate":            {http.MethodPost, "/apis/certificates.k8s.io/v1/certificatesigningrequests", false},
		"a status":                 {http.MethodPatch, "/api/v1/nodes/first/status", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := worthWaiting(httptest.NewRequest(c.method, c.url, nil)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAgain(t *testing.T) {
	get := httptest.NewRequest(http.MethodGet, "/", nil)
	post, _ := http.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	stream, _ := http.NewRequest(http.MethodPost, "/", io.NopCloser(strings.NewReader("x")))
	cases := map[string]struct {
		req  *http.Request
		err  error
		want bool
	}{
		"refused":                            {get, syscall.ECONNREFUSED, true},
		"refused with a body":                {post, syscall.ECONNREFUSED, true},
		"a body that can't be sent again":    {stream, syscall.ECONNREFUSED, false},
		"a closed connection on a read":      {get, io.EOF, true},
		"a closed connection on a write":     {post, io.EOF, false},
		"a reset connection on a write":      {post, syscall.ECONNRESET, false},
		"an error that waiting won't change": {get, errors.New("certificate"), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := again(c.req, c.err); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
