package local

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

const (
	// MetricsPort is where the plane serves metrics, on the dock's loopback, which hosts don't reach.
	MetricsPort = EnrolPort + 1
	// publishedMetrics is what the dock calls the address of the machine where metrics are served.
	publishedMetrics = "metrics"
)

// wantedMetrics returns where metrics are served from now on: at the address that is chosen, or, if none is, where they
// were.
func wantedMetrics(chosen *string, kept string) (string, error) {
	if chosen == nil || *chosen == "" {
		if chosen != nil {
			return "", nil
		}
		return kept, nil
	}
	at, err := netip.ParseAddrPort(*chosen)
	if err != nil || at.Port() == 0 {
		return "", hint.Errorf("give one of this machine: --metrics 127.0.0.1:9464",
			"--metrics %q is not an address with a port", *chosen)
	}
	return at.String(), nil
}

// publishMetrics serves the plane's metrics at the address, and nowhere else; empty: nowhere. If fresh, an address that
// does not work is an error; one of an earlier start is tried again and again.
func publishMetrics(ctx context.Context, docked *dock.Client, address string, fresh bool, p Progress) error {
	if address == "" {
		return explainDock(docked.DeleteRelay(ctx, publishedMetrics))
	}
	relay, err := docked.Publish(ctx, publishedMetrics, dock.Publication{Address: address, Target: loopback(MetricsPort)})
	if err != nil {
		return explainDock(err)
	}
	if relay.Error != "" && fresh {
		return hint.Errorf("choose another address, or take it back: capstan up --metrics ''", "%s", relay.Error)
	}
	if relay.Error != "" {
		p.note(fmt.Sprintf("Metrics are not served: %s; it is tried again.", relay.Error))
	}
	return nil
}
