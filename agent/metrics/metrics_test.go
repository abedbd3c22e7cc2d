package metrics

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// TestText: the text shows what was recorded, and Prometheus' own linter finds nothing.
func TestText(t *testing.T) {
	m := New("v1.2.3 \"x\"\\\n", "")
	m.Claimed("capstan://default/h1/1")
	m.Claimed("capstan://default/h1/1")
	m.Claimed("capstan://default/h1/2")
	m.Bootstrapped(1500*time.Millisecond, true)
	m.Bootstrapped(2*time.Hour, false)
	m.Cleaned(time.Second, true)
	m.Cleaned(4*time.Second, false)
	m.Renewed(true)
	m.Renewed(false)
	m.Renewed(false)
	m.Reconnects()
	m.Report(func() v1beta2.AgentReport {
		return v1beta2.AgentReport{
			Carries:  "capstan://default/h1/2",
			Cleaning: &v1beta2.CleaningReport{Leftovers: []string{"process 1", "a mount"}},
		}
	})
	text := m.Text()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	for _, want := range []string{
		`capstan_agent_build_info{version="v1.2.3 \"x\"\\\n",go_version="go`,
		"capstan_agent_claims_total 2\n",
		"capstan_agent_carries_machine 1\n",
		"capstan_agent_leftovers 2\n",
		`capstan_agent_bootstrap_duration_seconds_bucket{result="succeeded",le="1"} 0` + "\n",
		`capstan_agent_bootstrap_duration_seconds_bucket{result="succeeded",le="2.5"} 1` + "\n",
		`capstan_agent_bootstrap_duration_seconds_bucket{result="succeeded",le="+Inf"} 1` + "\n",
		`capstan_agent_bootstrap_duration_seconds_sum{result="succeeded"} 1.5` + "\n",
		`capstan_agent_bootstrap_duration_seconds_bucket{result="failed",le="3600"} 0` + "\n",
		`capstan_agent_bootstrap_duration_seconds_bucket{result="failed",le="+Inf"} 1` + "\n",
		`capstan_agent_cleaning_duration_seconds_bucket{result="succeeded",le="1"} 1` + "\n",
		`capstan_agent_cleaning_duration_seconds_count{result="failed"} 1` + "\n",
		`capstan_agent_token_renewals_total{result="failed"} 2` + "\n",
		`capstan_agent_token_renewals_total{result="succeeded"} 1` + "\n",
		"capstan_agent_watch_reconnects_total 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestNil: an agent without metrics records nothing.
func TestNil(t *testing.T) {
	var m *Metrics
	m.Claimed("x")
	m.Bootstrapped(time.Second, true)
	m.Cleaned(time.Second, true)
	m.Renewed(true)
	m.Reconnects()
	m.Report(nil)
	m.Serve(t.Context(), slog.New(slog.DiscardHandler))
}

func TestAddress(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"off":                              {"", ""},
		"a port alone means this computer": {":9464", "127.0.0.1:9464"},
		"loopback":                         {"127.0.0.1:9464", "127.0.0.1:9464"},
		"all addresses, if the user asks for that": {"0.0.0.0:9464", "0.0.0.0:9464"},
		"IPv6":                     {"[::1]:9464", "[::1]:9464"},
		"no port":                  {"127.0.0.1", "error"},
		"port zero":                {":0", "error"},
		"a port that is too large": {":65536", "error"},
		"a host name":              {"example.com:9464", "error"},
		"a port with a name":       {":http", "error"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Address(c.text)
			if err != nil {
				got = "error"
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// TestServe: metrics are served as soon as the address is free, only at their path, and until the context ends.
func TestServe(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended, m := make(chan struct{}), New("v1", address)
	go func() {
		defer close(ended)
		m.Serve(ctx, slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	taken.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	for began := time.Now(); ; {
		response, err := client.Get("http://" + address + "/metrics")
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode != http.StatusOK || string(body) != m.Text() {
				t.Errorf("%s: %s", response.Status, body)
			}
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for method, path := range map[string]string{http.MethodGet: "/", http.MethodPost: "/metrics"} {
		request, _ := http.NewRequest(method, "http://"+address+path, nil)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode < 400 {
			t.Errorf("%s %s: %s", method, path, response.Status)
		}
	}
	stop()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the server still runs")
	}
}
