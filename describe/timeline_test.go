package describe

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/record"
)

func TestWayOut(t *testing.T) {
	for want, call := range map[string]record.Call{
		"asked again within 5s": {Answer: record.Blocked, RetryAfter: 5 * time.Second},
		"a call succeeds":       {Answer: record.Failure, Err: errors.New("no route")},
		"not called":            {Answer: record.Failure, NotAsked: true},
	} {
		if got := wayOut(call); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

// TestBlockedNow: nothing blocks a cluster that is gone, and a handler that is no longer called blocks nothing.
func TestBlockedNow(t *testing.T) {
	cluster := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "there"}}
	extension := func(name string, handlers ...string) runtimev1.ExtensionConfig {
		e := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, h := range handlers {
			e.Status.Handlers = append(e.Status.Handlers, runtimev1.ExtensionHandler{Name: h + "." + name})
		}
		return e
	}
	counts := stillAsked(
		[]clusterv1.Cluster{cluster},
		[]runtimev1.ExtensionConfig{extension("e", "h", "other"), extension("new")},
	)
	for name, c := range map[string]struct {
		cluster, extension, handler string
		want                        bool
	}{
		"a handler that is called":                   {"there", "e", "h", true},
		"a cluster that is gone":                     {"gone", "e", "h", false},
		"an extension that is gone":                  {"there", "gone", "h", false},
		"a handler that its extension no longer has": {"there", "e", "gone", false},
		"an extension that has not been discovered":  {"there", "new", "h", true},
	} {
		t.Run(name, func(t *testing.T) {
			call := record.Call{
				Hook:      "g/v1/BeforeClusterDelete",
				Extension: c.extension,
				Handler:   c.handler,
				Answer:    record.Blocked,
				Object:    record.Object{Kind: "Cluster", Namespace: "team", Name: c.cluster},
			}
			got := blockedNow([]record.Call{call}, counts)
			if (len(got) == 1) != c.want {
				t.Fatalf("got %+v", got)
			}
			if c.want && got[0].Unblock != `capstan -n team hook unblock there BeforeClusterDelete --reason "..."` {
				t.Errorf("got %+v", got)
			}
		})
	}
}
