package rest

import (
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// fixed is a token that can be replaced once.
type fixed struct {
	mu    sync.Mutex
	list  []string
	tried []string
}

func (f *fixed) Token() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list[0]
}

func (f *fixed) Reject(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = append(f.tried, token)
	if len(f.list) > 1 && f.list[0] == token {
		f.list = f.list[1:]
	}
}

// client returns a client of a server that answers with handle.
func client(t *testing.T, tokens Tokens, handle http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	c, err := New(config.Config{Server: server.URL, CAData: string(ca), Namespace: "default", Host: "h1"}, tokens, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return c
}

func TestWatchHost(t *testing.T) {
	event := func(kind, name, zone string) string {
		return `{"type":"` + kind + `","object":{"metadata":{"name":"` + name + `"},"spec":{"zone":"` + zone + `"}}}` + "\n"
	}
	cases := map[string]struct {
		stream string
		want   []string
		err    string
	}{
		"the state, a change and the end": {event("ADDED", "h1", "a") + event("MODIFIED", "h1", "b"),
			[]string{"a", "b"}, ""},
		"a deletion": {event("ADDED", "h1", "a") + event("DELETED", "h1", "a"),
			[]string{"a", "deleted"}, ""},
		"bookmarks and empty lines": {event("BOOKMARK", "h1", "x") + "\n" + event("ADDED", "h1", "a"),
			[]string{"a"}, ""},
		"an event of another host": {event("ADDED", "h2", "x") + event("ADDED", "h1", "a"), []string{"a"}, ""},
		"an error event": {
			event("ADDED", "h1", "a") + `{"type":"ERROR","object":{"code":410,"message":"too old"}}` + "\n", []string{"a"},
			"410: too old",
		},
		"something that is not an event":            {"hello\n", nil, "invalid character"},
		"a line that is too long":                   {strings.Repeat("x", bodyLimit+1), nil, "too long"},
		"no events, because the host doesn't exist": {"", nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cl := client(t, &fixed{list: []string{"t"}}, func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.Query(); r.URL.Path != "/apis/infrastructure.capstan.dev/v1beta2/namespaces/default/capstanhosts" ||
					got.Get("watch") != "true" || got.Get("fieldSelector") != "metadata.name=h1" || got.Get("timeoutSeconds") == "" {
					t.Errorf("asked for %s", r.URL)
				}
				_, _ = io.WriteString(w, c.stream)
			})
			var got []string
			err := cl.WatchHost(t.Context(), func(host *v1beta2.CapstanHost) {
				if host == nil {
					got = append(got, "deleted")
					return
				}
				got = append(got, host.Spec.Zone)
			})
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") ||
				err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, %v; want %v, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestATokenThatIsNotAcceptedIsReplacedOnce(t *testing.T) {
	cases := map[string]struct {
		list  []string
		calls int
		ok    bool
	}{
		"the second token is accepted":            {[]string{"old", "good"}, 2, true},
		"the second token is not accepted either": {[]string{"old", "older", "oldest"}, 2, false},
		"there is no second token":                {[]string{"old"}, 1, false},
		"the first token is accepted":             {[]string{"good", "old"}, 1, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			calls := 0
			cl := client(t, &fixed{list: c.list}, func(w http.ResponseWriter, r *http.Request) {
				calls++
				if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"bootID":"b"`) {
					t.Errorf("body %q", body)
				}
				if r.Header.Get("Authorization") != "Bearer good" {
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
			err := cl.ApplyReport(t.Context(), &v1beta2.AgentReport{BootID: "b"})
			if calls != c.calls || (err == nil) != c.ok || err != nil && !IsCode(err, http.StatusUnauthorized) {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
}

// TestAnEarlierProviderGetsTheFactsThatItKnows: TestAnUnknownFieldIsNamed in provider/webhook shows that the API server
// answers like this.
func TestAnEarlierProviderGetsTheFactsThatItKnows(t *testing.T) {
	var bodies []string
	fail := `{"kind":"Status","message":"no typed patch object: .status.agent.disks: field not declared in schema"}`
	cl := client(t, &fixed{list: []string{"t"}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if strings.Contains(string(body), "disks") {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, fail)
		}
	})
	r := &v1beta2.AgentReport{BootID: "b", Model: "m", Carries: "x", Disks: []v1beta2.HostDisk{{Name: "sda", SizeGiB: 1}}}
	if err := cl.ApplyReport(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 2 || !strings.Contains(bodies[1], `"bootID":"b"`) || strings.Contains(bodies[1], "model") ||
		strings.Contains(bodies[1], "carries") {
		t.Errorf("sent: %q", bodies)
	}
	if r.Model == "" {
		t.Error("the caller's report has changed")
	}
	fail, bodies = `{"kind":"Status","message":"another reason"}`, nil
	if err := cl.ApplyReport(t.Context(), r); err == nil || len(bodies) != 1 {
		t.Errorf("for another error: %v, sent %d times", err, len(bodies))
	}
}

func TestErrorsSayWhatTheServerSays(t *testing.T) {
	cl := client(t, &fixed{list: []string{"t"}}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","reason":"Forbidden","message":"secrets \"h1-bootstrap\" is forbidden"}`)
	})
	_, err := cl.BootstrapData(t.Context())
	var status *StatusError
	if !errors.As(err, &status) || status.Code != http.StatusForbidden ||
		!strings.Contains(err.Error(), "reading Secret h1-bootstrap: the API server answered 403: secrets") {
		t.Errorf("got %v", err)
	}
	if IsCode(nil, 403) || IsCode(errors.New("x"), 403) || IsCode(err, 404) {
		t.Error("IsCode takes one error for another")
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	cl := client(t, &fixed{list: []string{"t"}}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the client followed the redirect")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if err := cl.Beat(t.Context(), time.Now()); !IsCode(err, http.StatusTemporaryRedirect) {
		t.Errorf("got %v", err)
	}
}

func TestAServerWithAnotherAuthorityIsNotTrusted(t *testing.T) {
	called := false
	cl := client(t, &fixed{list: []string{"t"}}, func(http.ResponseWriter, *http.Request) { called = true })
	// trust the system's authorities instead of the configured one
	cl.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = nil
	if err := cl.Beat(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "certificate") || called {
		t.Errorf("got %v", err)
	}
}
