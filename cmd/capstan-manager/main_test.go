package main

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/provider/pace"
)

func TestParse(t *testing.T) {
	upstream := election{lease: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
	elected := election{enabled: true, namespace: "n", lease: 4 * time.Second, renew: 3 * time.Second, retry: time.Second}
	usual, err := gates.Manager().With(nil)
	if err != nil {
		t.Fatal(err)
	}
	urgent := maps.Clone(usual)
	urgent["PriorityQueue"], urgent["ClusterTopology"] = true, false
	limits := pace.Limits{All: pace.Limit{PerSecond: 200, Burst: 1000}, Each: pace.Limit{PerSecond: 0.2, Burst: 30}}
	others := pace.Limits{All: pace.Limit{PerSecond: 7, Burst: 8}, Each: pace.Limit{PerSecond: 0.5, Burst: 9}}
	for name, c := range map[string]struct {
		args  []string
		want  settings
		fails string
	}{
		"the defaults, with metrics only on loopback": {want: settings{
			election: upstream, healthAddr: ":9440", metrics: "127.0.0.1:8080", concurrency: 10, machineConcurrency: 64,
			limits: limits, unlinkedTimeout: time.Hour, webhookPort: 9443, proof: "Compare",
		}},
		"all flags are set (IC-39, IC-40)": {
			args: []string{"--namespace=a", "--watch-filter=x", "--leader-elect", "--leader-elect-namespace=n",
				"--leader-elect-lease-duration=4s",
				"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s", "--health-addr=:1", "--metrics-bind=0",
				"--concurrency=3",
				"--host-rate=7", "--host-burst=8", "--each-host-rate=0.5", "--each-host-burst=9", "--unlinked-timeout=3m",
				"--machine-concurrency=5", "--webhook-port=2", "--webhook-cert-dir=/certs",
				"--cleaning-proof=Reimage"},
			want: settings{namespace: "a", watchFilter: "x", election: elected, healthAddr: ":1", metrics: "0", concurrency: 3,
				limits: others, unlinkedTimeout: 3 * time.Minute, machineConcurrency: 5,
				webhookPort: 2, webhookCertDir: "/certs", proof: "Reimage"},
		},
		"feature gates": {args: []string{"--feature-gates=PriorityQueue=true,ClusterTopology=false"}, want: settings{
			election: upstream, healthAddr: ":9440", metrics: "127.0.0.1:8080", concurrency: 10, machineConcurrency: 64,
			limits: limits, unlinkedTimeout: time.Hour, webhookPort: 9443, proof: "Compare",
			featureGates: "PriorityQueue=true,ClusterTopology=false", gates: urgent,
		}},
		"an unknown proof": {
			args: []string{"--cleaning-proof=Hope"}, fails: "give Trust, Compare or Reimage",
		},
		"an unknown feature gate": {
			args: []string{"--feature-gates=Nonsense=true"}, fails: "choose from ClusterTopology",
		},
		"certificates in two ways": {
			args: []string{"--webhook-cert-dir=/c", "--webhook-own-certificates=n"}, fails: "one or the other",
		},
		"an unknown flag": {args: []string{"--nonsense"}, fails: "nonsense"},
		"an argument":     {args: []string{"nonsense"}, fails: "takes only flags"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			got, _, err := parse(c.args, &out)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("got error %v, want one with %q", err, c.fails)
				}
				return
			}
			if c.want.gates == nil {
				c.want.gates = usual
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}
