package speed

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	httpclient "github.com/capstan-dev/capstan/runtime/internal/peer/http/client"
	httpjsonclient "github.com/capstan-dev/capstan/runtime/internal/peer/httpjson/client"
	jsonclient "github.com/capstan-dev/capstan/runtime/internal/peer/json/client"
	"github.com/capstan-dev/capstan/runtime/internal/testtls"
)

// transportRounds is the number of rounds in which each variant of our client has a turn.
const transportRounds = 101

// TestTransport measures what our own transport and our own encoding gain in a whole call, compared with net/http and
// encoding/json, for handlers that answer at once over TLS on warm connections. The variants take turns in one process;
// each ratio is the median over the rounds. ADR 6 has the figures.
//
//	go run ./hack/peer ./runtime/internal/speed -run TestTransport -count=1 -v
func TestTransport(t *testing.T) {
	ca := testtls.NewAuthority(t)
	url := start(t, ca)
	load, _ := os.ReadFile("/proc/loadavg")
	out := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(out, "load before: %s\n", strings.TrimSpace(string(load)))
	fmt.Fprintln(out, "HANDLERS\tTRANSPORT, ENCODING\tTIME\tCPU\tALLOCATIONS\t"+
		"OURS GAINS: TIME (QUARTILES)\tCPU\tALLOCATIONS\t")
	for _, handlers := range []int{1, 20} {
		list := configs(ca, url, "fast", handlers)
		times := 40 / handlers
		all := []*contender{
			{name: "ours, ours", once: calls(t, ours(t, list)), times: times},
			{name: "net/http, ours", once: calls(t, overHTTP(t, list)), times: times},
			{name: "ours, encoding/json", once: calls(t, withJSON(t, list)), times: times},
			{name: "net/http, encoding/json", once: calls(t, overHTTPWithJSON(t, list)), times: times},
		}
		cpu := make([][]time.Duration, len(all))
		for _, c := range all { // connections, and everything else that is created once
			for range 20 {
				c.once()
			}
		}
		for round := range transportRounds {
			for i := range all {
				i = (i + round) % len(all) // no variant always comes first
				before := used(t)
				all[i].turn()
				cpu[i] = append(cpu[i], (used(t)-before)/time.Duration(times))
			}
		}
		for i, c := range all {
			fmt.Fprintf(out, "%d\t%s\t%s\t%s\t%.0f\t", handlers, c.name, median(c.took).Round(time.Microsecond/10),
				median(cpu[i]).Round(time.Microsecond/10), median(c.allocs))
			if i > 0 {
				low, middle, high := gains(all[0].took, c.took)
				_, middleCPU, _ := gains(cpu[0], cpu[i])
				fmt.Fprintf(out, "%.1f %% (%.1f to %.1f)\t%.1f %%\t%.1f %%", middle, low, high, middleCPU,
					100*(1-median(all[0].allocs)/median(c.allocs)))
			} else {
				fmt.Fprint(out, "\t\t")
			}
			fmt.Fprintln(out, "\t")
		}
	}
	load, _ = os.ReadFile("/proc/loadavg")
	fmt.Fprintf(out, "load after: %s\n", strings.TrimSpace(string(load)))
	_ = out.Flush()
}

// used returns the processor time that this process has used.
func used(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// gains returns the quartiles, over the rounds, of how many percent less a takes than b.
func gains(a, b []time.Duration) (low, middle, high float64) {
	gained := make([]float64, len(a))
	for i := range a {
		gained[i] = 100 * (1 - float64(a[i])/float64(b[i]))
	}
	slices.Sort(gained)
	return gained[len(gained)/4], gained[len(gained)/2], gained[3*len(gained)/4]
}

func overHTTP(t *testing.T, list []runtimev1.ExtensionConfig) own {
	t.Helper()
	c, err := httpclient.New(httpclient.Options{})
	return warm(t, c, err, list)
}

func withJSON(t *testing.T, list []runtimev1.ExtensionConfig) own {
	t.Helper()
	c, err := jsonclient.New(jsonclient.Options{})
	return warm(t, c, err, list)
}

func overHTTPWithJSON(t *testing.T, list []runtimev1.ExtensionConfig) own {
	t.Helper()
	c, err := httpjsonclient.New(httpjsonclient.Options{})
	return warm(t, c, err, list)
}
