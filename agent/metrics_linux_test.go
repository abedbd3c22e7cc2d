package agent

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// metricsAddress is where agents in tests serve metrics, in the network of the throw-away host.
const metricsAddress = "127.0.0.1:9464"

// scrape returns the metrics of an agent that was started with metricsAddress.
func scrape(t *testing.T) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	response, err := client.Get("http://" + metricsAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMetrics: an agent counts a machine that comes and goes, a machine that fails, and renewals of its own token.
func TestMetrics(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		h := newTestHost(t)
		agent := h.startProgram(t, testhost.Binary, "", &logWriter{t: t}, "--metrics-bind-address", ":9464")
		id := h.claimIt(testData)
		h.waitBootstrap(t, id, v1beta2.BootstrapSucceeded)
		if text := scrape(t); !strings.Contains(text, "\ncapstan_agent_carries_machine 1\n") {
			t.Errorf("with a machine on the host: %s", text)
		}
		h.releaseIt(t, id)
		id = h.claimIt("#cloud-config\nruncmd:\n- kubeadm never && false\n- 'false'\n")
		h.waitBootstrap(t, id, v1beta2.BootstrapFailed)
		h.releaseIt(t, id)
		text := scrape(t)
		for _, want := range []string{
			`_build_info{version="` + versionOf(testhost.Binary) + `",`,
			"_claims_total 2\n", "_carries_machine 0\n", "_leftovers 0\n",
			`_bootstrap_duration_seconds_count{result="succeeded"} 1` + "\n",
			`_bootstrap_duration_seconds_count{result="failed"} 1` + "\n",
			`_cleaning_duration_seconds_count{result="succeeded"} 2` + "\n",
			`_cleaning_duration_seconds_count{result="failed"} 0` + "\n",
		} {
			if !strings.Contains(text, "\ncapstan_agent"+want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
		if strings.Contains(text, `_token_renewals_total{result="succeeded"} 0`) {
			t.Errorf("no renewal of the token is counted:\n%s", text)
		}
		stop(t, agent)
	})
}
