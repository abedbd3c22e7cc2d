package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/provider/pace"
)

func TestOptions(t *testing.T) {
	server := AgentServer{URL: "https://x", CAData: []byte("x")}
	for name, c := range map[string]struct {
		options Options
		fails   string
	}{
		"the zero value works":        {},
		"a supplier with a server":    {options: Options{Supplier: supplier{}, AgentServer: server}},
		"a supplier without a server": {options: Options{Supplier: supplier{}}, fails: "AgentServer"},
		"a server without CA": {
			options: Options{Supplier: supplier{}, AgentServer: AgentServer{URL: "https://x"}}, fails: "AgentServer",
		},
		"a negative number of workers":         {options: Options{Concurrency: -1}, fails: "negative"},
		"a negative number of machine workers": {options: Options{MachineConcurrency: -1}, fails: "negative"},
		"a negative heartbeat timeout":         {options: Options{HeartbeatTimeout: -time.Second}, fails: "negative"},
		"a negative rate": {
			options: Options{HostLimits: pace.Limits{All: pace.Limit{PerSecond: -1}}}, fails: "Options.HostLimits",
		},
		"a negative time without a Cluster": {options: Options{UnlinkedTimeout: -time.Second}, fails: "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.options.complete()
			if c.fails == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("error %v, want %q", err, c.fails)
			}
			if err == nil && (c.options.Concurrency != 10 ||
				c.options.MachineConcurrency != 64 || c.options.HeartbeatTimeout != 40*time.Second ||
				c.options.UnlinkedTimeout != time.Hour || c.options.HostLimits.All != pace.DefaultAll ||
				c.options.Clock == nil || c.options.SupplyNamespace("host-01") != "default") {
				t.Errorf("defaults are %+v", c.options)
			}
		})
	}
}
