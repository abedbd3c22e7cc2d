package e2e

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestMetricsOfAPlane: a running plane serves its metrics at the requested address, until the user turns them off.
func TestMetricsOfAPlane(t *testing.T) {
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	must(t, "up", "--metrics", at)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + at + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{
		`capstan_hosts{namespace="default",phase="`, "capstan_machine_host_wait_seconds_count ",
		`controller_runtime_reconcile_total{controller="capstanhost"`,
	} {
		if !strings.Contains(string(text), "\n"+series) {
			t.Errorf("the metrics have no %s", series)
		}
	}
	must(t, "up", "--metrics", "")
	if response, err := client.Get("http://" + at + "/metrics"); err == nil {
		response.Body.Close()
		t.Errorf("the metrics are still served: %s", response.Status)
	}
}
