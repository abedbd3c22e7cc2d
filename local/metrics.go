package local

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

const (
	// MetricsPort is the port on the dock's loopback at which the plane serves metrics; hosts can't reach it.
	MetricsPort = EnrolPort + 1
	// publishedMetrics is the dock's name for the machine's address at which metrics are served.
	publishedMetrics = "metrics"
)

// wantedMetrics returns where to serve metrics: at the chosen address, or, if none is chosen, where they were served so
// far.
func wantedMetrics(chosen *string, kept string) (string, error) {
	if chosen == nil || *chosen == "" {
		if chosen != nil {
			return "", nil
		}
		return kept, nil
	}
	at, err := netip.ParseAddrPort(*chosen)
	if err != nil || at.Port() == 0 {
		return "", hint.Errorf("for example: --metrics 127.0.0.1:9464",
			"--metrics %q is not an address with a port", *chosen)
	}
	return at.String(), nil
}

// publishMetrics serves the plane's metrics at the address and nowhere else; empty: nowhere. If fresh is set, an
// address that does not work is an error; an address from an earlier start is retried instead.
func publishMetrics(ctx context.Context, docked *dock.Client, address string, fresh bool, p Progress) error {
	if address == "" {
		return explainDock(docked.DeleteRelay(ctx, publishedMetrics))
	}
	relay, err := docked.Publish(ctx, publishedMetrics, dock.Publication{Address: address, Target: loopback(MetricsPort)})
	if err != nil {
		return explainDock(err)
	}
	if relay.Error != "" && fresh {
		return hint.Errorf("choose another address, or remove it: capstan up --metrics ''", "%s", relay.Error)
	}
	if relay.Error != "" {
		p.note(fmt.Sprintf("Metrics are not served: %s; Capstan keeps retrying.", relay.Error))
	}
	return nil
}
