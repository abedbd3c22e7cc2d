package clusterctl

import (
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/capstan-dev/capstan/internal/enrolment"
)

func TestEnrolmentURL(t *testing.T) {
	for server, want := range map[string]string{
		"https://10.0.0.1:6443":          "https://10.0.0.1:6444",
		"https://[fd00::1]:6443":         "https://[fd00::1]:6444",
		"https://plane.example.com:7443": "https://plane.example.com:7444",
		"https://plane.example.com":      "",
		"https://10.0.0.1:65535":         "",
		"https://:6443":                  "",
		"%":                              "",
	} {
		if got := enrolmentURL(server); got != want {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
	}
}

// TestEnrolmentServer: only a server that has a certificate of the target's authority and answers like an enrolment
// server counts.
func TestEnrolmentServer(t *testing.T) {
	says := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != enrolment.VersionPath {
				t.Errorf("the mover asked for %s", r.URL.Path)
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(text))
		}
	}
	for name, c := range map[string]struct {
		handler  http.HandlerFunc
		stranger bool
		warning  string // part of the warning if the server is not found
	}{
		"an enrolment server":           {handler: says(http.StatusOK, `{"version":"v1.2.3"}`)},
		"a server of another authority": {says(http.StatusOK, `{"version":"v1.2.3"}`), true, "unknown authority"},
		"an API server": {handler: says(http.StatusForbidden, `{"kind":"Status"}`),
			warning: "is no enrolment server (403 Forbidden)"},
		"an answer without a version": {handler: says(http.StatusOK, `{}`), warning: "is no enrolment server"},
		"an answer that is not JSON":  {handler: says(http.StatusOK, `hello`), warning: "is no enrolment server"},
		"no server":                   {warning: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(c.handler)
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports refused handshakes
			s.StartTLS()
			defer s.Close()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
			if c.stranger {
				var err error
				if ca, _, err = cert.GenerateSelfSignedCertKey("stranger", nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			u, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			port, err := strconv.Atoi(u.Port())
			if err != nil {
				t.Fatal(err)
			}
			api := "https://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(port-1))
			want := ""
			switch {
			case c.handler == nil:
				s.Close()
			case c.warning == "":
				want = s.URL
			}
			var told []string
			h := HandOver{Tell: func(text string) { told = append(told, text) }}
			if got := h.enrolment(t.Context(), api, ca); got != want {
				t.Errorf("found %q, want %q", got, want)
			}
			text := strings.Join(told, "|")
			if warned := strings.HasPrefix(text, "warning: "); len(told) > 1 || warned != (c.warning != "") ||
				!strings.Contains(text, c.warning) {
				t.Errorf("told %q, want a warning about %q", told, c.warning)
			}
		})
	}
}
