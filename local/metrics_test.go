package local

import (
	"net"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestWhereMetricsAreServed(t *testing.T) {
	chosen := func(text string) *string { return &text }
	const kept = "127.0.0.1:1"
	for name, c := range map[string]struct {
		chosen *string
		want   string
		fails  bool
	}{
		"no choice keeps the address": {nil, kept, false},
		"an address":                  {chosen("127.0.0.1:9464"), "127.0.0.1:9464", false},
		"an IPv6 address":             {chosen("[::1]:9464"), "[::1]:9464", false},
		"an empty address removes it": {chosen(""), "", false},
		"an address without a port":   {chosen("127.0.0.1"), "", true},
		"a port alone":                {chosen(":9464"), "", true},
		"a name":                      {chosen("localhost:9464"), "", true},
		"port zero, which is random":  {chosen("127.0.0.1:0"), "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := wantedMetrics(c.chosen, kept)
			if got != c.want || (err != nil) != c.fails || (err != nil && hint.Of(err) == "") {
				t.Errorf("got %q, error %v", got, err)
			}
		})
	}
}

// TestUpServesMetrics: metrics are served at the requested address, again at the next start, and no longer once the
// request is withdrawn.
func TestUpServesMetrics(t *testing.T) {
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	ctx := limit(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	served := func() string {
		t.Helper()
		docked := dock.Connect(w.Home)
		defer docked.Close()
		s, err := docked.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Relays {
			if r.Name == publishedMetrics {
				return r.Local + " " + r.Target
			}
		}
		return ""
	}
	if plane, err := w.up(ctx, UpOptions{Hosts: 1}); err != nil || plane.Metrics != "" || served() != "" {
		t.Fatalf("Up without --metrics: got %+v, error %v", plane, err)
	}
	want := at + " 127.0.0.1:7445"
	if plane, err := w.up(ctx, UpOptions{Metrics: &at}); err != nil || plane.Metrics != at || served() != want {
		t.Fatalf("Up with --metrics: got %+v, error %v, served at %q", plane, err, served())
	}
	if plane, err := w.up(ctx, UpOptions{}); err != nil || plane.Metrics != at || served() != want {
		t.Errorf("the next Up: got %+v, error %v, served at %q", plane, err, served())
	}
	elsewhere, nowhere := taken.Addr().String(), ""
	if _, err := w.up(ctx, UpOptions{Metrics: &elsewhere}); err == nil || hint.Of(err) == "" {
		t.Errorf("Up with a port that is taken: got error %v, want one with a hint", err)
	}
	if plane, err := w.up(ctx, UpOptions{Metrics: &nowhere}); err != nil || plane.Metrics != "" || served() != "" {
		t.Errorf("Up after the request was withdrawn: got %+v, error %v, served at %q", plane, err, served())
	}
}
