package speed

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

// rounds is the number of rounds. Every contender has a turn in each, so a temporary disturbance of the machine affects
// all of them.
const rounds = 25

// contender is one of the clients to measure.
type contender struct {
	name   string
	once   func()
	times  int // in a row
	took   []time.Duration
	allocs []float64
}

// turn runs a contender a number of times.
func (c *contender) turn() {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range c.times {
		c.once()
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	c.took = append(c.took, took/time.Duration(c.times))
	c.allocs = append(c.allocs, float64(after.Mallocs-before.Mallocs)/float64(c.times))
}

func median[T time.Duration | float64](values []T) T {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

func TestSpeed(t *testing.T) {
	ca := testtls.NewAuthority(t)
	url := start(t, ca)
	one, twenty, late := configs(ca, url, "fast", 1), configs(ca, url, "fast", 20), configs(ca, url, "slow", 20)
	floor := &contender{name: "floor, 1 POST", once: posts(t, ca, url), times: 200}
	ours1 := &contender{name: "ours, 1 handler", once: calls(t, ours(t, one)), times: 200}
	peer1 := &contender{name: "peer, 1 handler", once: calls(t, peer(t, one)), times: 100}
	ours20 := &contender{name: "ours, 20 handlers", once: calls(t, ours(t, twenty)), times: 20}
	peer20 := &contender{name: "peer, 20 handlers", once: calls(t, peer(t, twenty)), times: 5}
	oursSlow := &contender{name: "ours, 20 handlers of 20 ms", once: calls(t, ours(t, late)), times: 2}
	all := []*contender{floor, ours1, peer1, ours20, peer20, oursSlow}
	for _, c := range all { // connections, and everything else that is created once
		c.once()
	}
	for range rounds {
		for _, c := range all {
			c.turn()
		}
	}

	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(out, "WHAT\tTIME\tALLOCATIONS")
	for _, c := range all {
		fmt.Fprintf(out, "%s\t%s\t%.0f\n", c.name, median(c.took).Round(time.Microsecond/10), median(c.allocs))
	}
	fmt.Fprintln(out, "\nRATIO\tIS\tMUST\tAIM\t")
	ratio := func(name string, is, must, aim float64) {
		verdict := "reached the aim"
		if is > must {
			verdict = "MISSED"
		} else if is > aim {
			verdict = "missed the aim, but is within MUST"
		}
		fmt.Fprintf(out, "%s\t%.2f\t%.2f\t%.2f\t%s\n", name, is, must, aim, verdict)
	}
	ratio("1 handler at once, ours / floor (time)", of(ours1.took, floor.took), 1.8, 1.4)
	ratio("20 handlers at once, ours / peer (time)", of(ours20.took, peer20.took), 0.35, 0.2)
	ratio("20 handlers of 20 ms, ours / 20 ms", float64(median(oursSlow.took))/float64(slow), 1.5, 1.2)
	ratio("20 handlers, ours / peer (allocations)", median(ours20.allocs)/median(peer20.allocs), 0.3, 0.15)
	_ = out.Flush()
}

// of returns the median of the ratios a[i]/b[i]. Both values of a round were measured under the same conditions.
func of(a, b []time.Duration) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = float64(a[i]) / float64(b[i])
	}
	return median(ratios)
}

// namespaceReader knows one namespace.
type namespaceReader struct{ labels map[string]string }

func (r namespaceReader) Get(_ context.Context, _ ctrlclient.ObjectKey, object ctrlclient.Object, _ ...ctrlclient.GetOption) error {
	object.SetLabels(r.labels)
	return nil
}

func (r namespaceReader) List(context.Context, ctrlclient.ObjectList, ...ctrlclient.ListOption) error {
	return nil
}

func TestSpeedOfGetAllExtensions(t *testing.T) {
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(out, "GetAllExtensions WITH 200 REGISTRATIONS\tTIME\tALLOCATIONS\tMUST")
	ca := testtls.NewAuthority(t)
	selective := configs(ca, "https://127.0.0.1:1", "h", 200)
	for i := range selective {
		selective[i].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	}
	for _, c := range []struct {
		name   string
		list   []runtimev1.ExtensionConfig
		hook   any
		labels map[string]string
		must   string
	}{
		{"of other hooks", configs(ca, "https://127.0.0.1:1", "h", 200), runtimehooksv1.BeforeClusterDelete, nil, "2 µs, 0"},
		{"that select other namespaces", selective, runtimehooksv1.BeforeClusterCreate, map[string]string{"env": "test"}, "2 µs, 0"},
		{"that all match", configs(ca, "https://127.0.0.1:1", "h", 200), runtimehooksv1.BeforeClusterCreate, nil, "2 µs"},
	} {
		calls, err := client.New(client.Options{Reader: namespaceReader{c.labels}})
		if err != nil {
			t.Fatal(err)
		}
		if err := calls.WarmUp(&runtimev1.ExtensionConfigList{Items: c.list}); err != nil {
			t.Fatal(err)
		}
		cluster := testCluster()
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := calls.GetAllExtensions(context.Background(), c.hook, cluster); err != nil {
					b.Fatal(err)
				}
			}
		})
		fmt.Fprintf(out, "%s\t%s\t%d\t%s\n", c.name, time.Duration(result.NsPerOp()), result.AllocsPerOp(), c.must)
	}
	_ = out.Flush()
}
