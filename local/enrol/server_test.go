package enrol

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/dock/balancer"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/internal/testcert"
)

// front is an enrolment server behind a relay that forwards connections as the dock does.
type front struct {
	url       string
	authority *x509.Certificate
	ca        []byte // PEM
	binaries  string
	log       *bytes.Buffer

	mu    sync.Mutex
	asked []enrolment.Request
	keys  []string
	reply func(enrolment.Request) (*enrolment.Answer, error)
}

// newFront starts a server that gets the time from the function now. Nil means the real time.
func newFront(t *testing.T, now func() time.Time) *front {
	t.Helper()
	return newFrontWith(t, now, func(*Options) {})
}

// newFrontWith starts a server with changed options.
func newFrontWith(t *testing.T, now func() time.Time, change func(*Options)) *front {
	t.Helper()
	f := &front{binaries: t.TempDir(), log: &bytes.Buffer{}}
	leaf, ca := testcert.Server(t, net.IPv4(127, 0, 0, 1))
	f.authority, f.ca = ca.Certificate, ca.PEM()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.url = "https://" + outer.Addr().String()
	o := Options{
		Enroll: func(_ context.Context, r enrolment.Request, key string) (*enrolment.Answer, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.asked, f.keys = append(f.asked, r), append(f.keys, key)
			return f.reply(r)
		},
		Certificate: func() (*tls.Certificate, error) {
			certificate := leaf.TLS()
			return &certificate, nil
		},
		Authority: ca.Certificate, Binaries: f.binaries, URL: f.url, Version: "v9", Now: now,
		Log: slog.New(slog.NewTextHandler(f.log, nil)),
	}
	change(&o)
	s := New(o)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, inner) }()
	relay := balancer.ServeWith(balancer.Options{Announce: true}, outer, inner.Addr().String())
	t.Cleanup(func() {
		relay.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return f
}

// client returns a client. If certified is true, the client presents its own certificate.
func (f *front) client(t *testing.T, certified bool) *http.Client {
	t.Helper()
	config := enrolment.ClientConfig("127.0.0.1", enrolment.Pin(f.authority))
	if certified {
		own := testcert.Sign(t, testcert.Pair{}, &x509.Certificate{Subject: pkix.Name{CommonName: "host"}})
		config.Certificates = []tls.Certificate{own.TLS()}
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// call returns the status and the body of a response.
func call(t *testing.T, c *http.Client, method, url string, body io.Reader) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestWhoHasNoIdentityGetsNothingElse sends requests for paths and methods that the server does not offer to everybody.
func TestWhoHasNoIdentityGetsNothingElse(t *testing.T) {
	hour := noon
	f := newFront(t, func() time.Time { hour = hour.Add(time.Second); return hour })
	secret := filepath.Join(f.binaries, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.binaries, "capstan-agent"), []byte("agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := f.client(t, true)
	for method, paths := range map[string][]string{
		http.MethodGet: {
			"/", "/v1", "/v1/", "/v1/enroll", "/v1/enroll/", "/v2/version", "/v1/version/", "/v1/versionx",
			"/api", "/api/v1/secrets", "/apis", "/healthz", "/livez", "/readyz", "/metrics", "/version",
			"/openapi/v2", "/debug/pprof/", "/.well-known/openid-configuration", "/openid/v1/jwks",
			"/api/v1/namespaces/kube-public/configmaps/cluster-info", "/v1/agent", "/v1/agent/linux/",
			"/v1/agent/linux/../../secret", "/v1/agent/linux/%2e%2e%2fsecret",
			"/v1/agent/linux/amd64/../secret", "/v1/agent/linux/secret", "/v1/agent/linux/amd64.sha256.sha256",
			"/v1/agent/linux//etc/passwd", "//v1/version", "/v1/../v1/version", "/V1/version",
			"/v1/agent/windows/amd64", "/v1/agent/linux/riscv64",
		},
		http.MethodPost:    {"/v1/version", "/v1/install", "/v1/agent/linux/amd64", "/api/v1/namespaces", "/"},
		http.MethodPut:     {"/v1/enroll"},
		http.MethodDelete:  {"/v1/enroll", "/v1/version"},
		http.MethodConnect: {"/v1/version"},
		http.MethodOptions: {"/v1/enroll", "/v1/version"},
		http.MethodTrace:   {"/v1/version"},
	} {
		for _, path := range paths {
			code, body := call(t, c, method, f.url+path, nil)
			if code != http.StatusForbidden || strings.Contains(body, "secret") || strings.Contains(body, f.binaries) {
				t.Errorf("%s %s: got %d %s, want 403", method, path, code, body)
			}
		}
	}
	if len(f.asked) != 0 {
		t.Errorf("a request for another path or method enrolled a computer: %+v", f.asked)
	}
	for path, want := range map[string]func(string) bool{
		"/v1/version":                                   func(s string) bool { return s == `{"version":"v9"}`+"\n" },
		"/v1/agent/linux/" + runtime.GOARCH:             func(s string) bool { return s == "agent" },
		"/v1/agent/linux/" + runtime.GOARCH + ".sha256": func(s string) bool { return len(s) == 65 },
		"/v1/install": func(s string) bool {
			return strings.HasPrefix(s, "#!/bin/sh")
		},
		"/v1/version?x=" + strings.Repeat("y", headerBytes/2): func(s string) bool { return strings.Contains(s, "v9") },
	} {
		if code, body := call(t, c, http.MethodGet, f.url+path, nil); code != http.StatusOK || !want(body) {
			t.Errorf("GET %s: got %d %s", path, code, body)
		}
	}
}

// TestEnrollOverTheNetwork: the request arrives with the hash of the key that the client has proved to hold, and the
// client gets answers and refusals. No log contains the credential.
func TestEnrollOverTheNetwork(t *testing.T) {
	f := newFront(t, nil)
	credential, _ := enrolment.NewCredential()
	body := func() io.Reader {
		return strings.NewReader(
			`{"credential":"` + credential + `","host":"rack1","machine":"` + strings.Repeat("a", 64) + `"}`,
		)
	}
	f.reply = func(enrolment.Request) (*enrolment.Answer, error) {
		return &enrolment.Answer{Host: "rack1", Namespace: "default", Token: "token"}, nil
	}
	c := f.client(t, true)
	code, text := call(t, c, http.MethodPost, f.url+"/v1/enroll", body())
	if code != http.StatusOK || !strings.Contains(text, `"token":"token"`) || f.asked[0].Credential != credential ||
		f.asked[0].Host != "rack1" {
		t.Fatalf("got %d %s, asked %+v", code, text, f.asked)
	}
	own, err := x509.ParseCertificate(c.Transport.(*http.Transport).TLSClientConfig.Certificates[0].Certificate[0])
	if err != nil || f.keys[0] != enrolment.Pin(own) {
		t.Errorf("the key's hash is %s, error %v", f.keys[0], err)
	}
	for reason, want := range map[string]int{
		enrolment.ReasonCredential: 401, enrolment.ReasonExpired: 401, enrolment.ReasonUsedUp: 401, enrolment.ReasonName: 403,
		enrolment.ReasonZone: 403, enrolment.ReasonTaken: 409, enrolment.ReasonInUse: 409, enrolment.ReasonRequest: 400,
	} {
		f.reply = func(enrolment.Request) (*enrolment.Answer, error) { return nil, refuse(reason, "no") }
		code, text := call(t, c, http.MethodPost, f.url+"/v1/enroll", body())
		refusal := &enrolment.Refusal{}
		if err := json.Unmarshal([]byte(text), refusal); err != nil || code != want || refusal.Reason != reason ||
			refusal.Message != "no" {
			t.Errorf("refusal with reason %s: got %d %s, error %v", reason, code, text, err)
		}
	}
	f.reply = func(enrolment.Request) (*enrolment.Answer, error) {
		return nil, fmt.Errorf("etcd at 10.0.0.1 is gone")
	}
	code, text = call(t, c, http.MethodPost, f.url+"/v1/enroll", body())
	if code != http.StatusServiceUnavailable || strings.Contains(text, "10.0.0.1") ||
		!strings.Contains(text, `"retry":true`) {
		t.Errorf("while the plane has a problem: got %d %s", code, text)
	}
	if log := f.log.String(); strings.Contains(log, credential[18:]) || !strings.Contains(log, "rack1") {
		t.Errorf("the log is %s", log)
	}
}

// TestEnrollRefusesRequests: an invalid request, one that is too large, or one without a key never reaches
// Options.Enroll.
func TestEnrollRefusesRequests(t *testing.T) {
	f := newFront(t, nil)
	f.reply = func(enrolment.Request) (*enrolment.Answer, error) { return &enrolment.Answer{Token: "token"}, nil }
	with := f.client(t, true)
	for name, c := range map[string]struct {
		client *http.Client
		body   string
	}{
		"a client without a key":        {f.client(t, false), `{"credential":"x"}`},
		"an empty body":                 {with, ``},
		"a body that is not JSON":       {with, `credential=x`},
		"a JSON list":                   {with, `[]`},
		"a request that chooses a zone": {with, `{"credential":"x","zone":"b"}`},
		"labels":                        {with, `{"credential":"x","labels":{"a":"b"}}`},
		"a key in the body":             {with, `{"credential":"x","key":"sha256:0"}`},
		"two requests":                  {with, `{"credential":"x"}{"credential":"y"}`},
		"a body of megabytes":           {with, `{"credential":"` + strings.Repeat("x", 4<<20) + `"}`},
		"a credential that is a number": {with, `{"credential":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(
				t.Context(),
				http.MethodPost,
				f.url+"/v1/enroll",
				strings.NewReader(c.body),
			)
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.client.Do(request)
			if err != nil {
				return // the server closed the connection while the body was being sent
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusBadRequest {
				t.Errorf("got status %s, want 400", response.Status)
			}
		})
	}
	if len(f.asked) != 0 {
		t.Errorf("%d invalid requests reached Options.Enroll", len(f.asked))
	}
}

// TestAFloodOfRequests: one address gets a limited number of answers; then the server says when to try again.
func TestAFloodOfRequests(t *testing.T) {
	f := newFront(t, func() time.Time { return noon })
	f.reply = func(enrolment.Request) (*enrolment.Answer, error) {
		return nil, refuse(enrolment.ReasonCredential, "no")
	}
	c := f.client(t, true)
	answered := 0
	for range perAddressBurst + 20 {
		response, err := c.Post(f.url+"/v1/enroll", "application/json", strings.NewReader(`{"credential":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		switch response.StatusCode {
		case http.StatusUnauthorized:
			answered++
		case http.StatusTooManyRequests:
			if response.Header.Get("Retry-After") == "" {
				t.Error("the answer has no Retry-After header")
			}
		default:
			t.Errorf("got %s", response.Status)
		}
	}
	if answered != perAddressBurst || len(f.asked) != perAddressBurst {
		t.Errorf("%d requests were answered and %d arrived, want %d each", answered, len(f.asked), perAddressBurst)
	}
}

// TestSilentConnections: one address can't occupy all connections by staying silent, and others are served meanwhile.
func TestSilentConnections(t *testing.T) {
	f := newFront(t, nil)
	address := strings.TrimPrefix(f.url, "https://")
	from := func(ip string) *net.Dialer {
		return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: 10 * time.Second}
	}
	for range connectionsOfOne + 10 {
		conn, err := from("127.0.0.9").Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	other := f.client(t, false)
	other.Transport.(*http.Transport).DialContext = from("127.0.0.10").DialContext
	if code, text := call(t, other, http.MethodGet, f.url+"/v1/version", nil); code != http.StatusOK {
		t.Errorf("while one address is silent, another address gets %d %s", code, text)
	}
}

func TestAddressOf(t *testing.T) {
	for text, want := range map[string]netip.Addr{
		"192.0.2.1:5":          netip.MustParseAddr("192.0.2.1"),
		"[::ffff:192.0.2.1]:5": netip.MustParseAddr("192.0.2.1"),
		"somewhere":            {},
	} {
		if got := addressOf(&http.Request{RemoteAddr: text}); got != want {
			t.Errorf("the address of %s is %s", text, got)
		}
	}
}
