package webhook_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAMirrorNeedsItsSource tries policies for bundles that the schema of each field allows.
func TestAMirrorNeedsItsSource(t *testing.T) {
	mirror := func(url string) map[string]any { return map[string]any{"url": url} }
	for name, c := range map[string]struct {
		policy map[string]any
		want   string // of the error; "": it is accepted
	}{
		"from the plane": {map[string]any{"source": "Plane"}, ""},
		"from a mirror":  {map[string]any{"source": "Mirror", "mirror": mirror("https://m.example/capstan")}, ""},
		"an IPv6 mirror": {map[string]any{"source": "Mirror", "mirror": mirror("http://[2001:db8::1]:8080")}, ""},
		"a mirror that is not used": {map[string]any{"source": "Plane", "mirror": mirror("https://m.example")},
			"mirror must be set with source Mirror, and only then"},
		"no mirror":      {map[string]any{"source": "Mirror"}, "mirror must be set with source Mirror, and only then"},
		"a password":     {map[string]any{"source": "Mirror", "mirror": mirror("https://a:b@m.example")}, "should match"},
		"a query":        {map[string]any{"source": "Mirror", "mirror": mirror("https://m.example/?a=b")}, "should match"},
		"a file":         {map[string]any{"source": "Mirror", "mirror": mirror("file:///etc/shadow")}, "should match"},
		"another source": {map[string]any{"source": "Floppy"}, "Unsupported value"},
		"no source":      {map[string]any{"mirror": mirror("https://m.example")}, "source"},
	} {
		t.Run(name, func(t *testing.T) {
			u := object("v1beta2", "CapstanHost", "bundles", map[string]any{"zone": "zone-a", "bundles": c.policy})
			err := live.api.Create(t.Context(), u, client.DryRunAll)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
