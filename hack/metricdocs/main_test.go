package main

import (
	"os"
	"strings"
	"testing"
)

// TestThePageIsThatOfTheCode: "make generate" writes the page; this test fails if that was forgotten.
func TestThePageIsThatOfTheCode(t *testing.T) {
	want, err := page()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/reference/metrics.md does not match the code: run make generate")
	}
	for _, row := range []string{
		"| `capstan_hosts` | gauge | `namespace`, `zone`, `phase` | Number of CapstanHosts by phase. |",
		"| `capstan_machine_host_wait_seconds` | histogram | – |",
		"| `runtime_hook_calls_total` | counter |",
		"| `runtime_extension_calls_running` | gauge | – |",
		"| `capstan_extension_add_on_drift_total` | counter | `what` |",
	} {
		if !strings.Contains(want, row) {
			t.Errorf("the page lacks %s", row)
		}
	}
}
