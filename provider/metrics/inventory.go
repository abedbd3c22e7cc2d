package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/watchfilter"
)

// Names of the metrics of an Inventory.
const (
	// Hosts is a gauge by namespace, zone and phase.
	Hosts = "capstan_hosts"
	// Unschedulable is a gauge by namespace and zone.
	Unschedulable = "capstan_hosts_unschedulable"
	// Agents is a gauge by version.
	Agents = "capstan_host_agents"
	// Waiting is a gauge by namespace and reason.
	Waiting = "capstan_machines_waiting"
)

// listTimeout bounds how long a scrape reads from the cache.
const listTimeout = 5 * time.Second

// Inventory is a collector that computes its gauges from the manager's cache at each scrape.
type Inventory struct {
	cache   client.Reader
	filter  watchfilter.Filter
	elected <-chan struct{}
}

// NewInventory returns a collector of the CapstanHosts and CapstanMachines in the cache that match the filter. It
// collects nothing until elected is closed, so that only the leader of several managers reports.
func NewInventory(cache client.Reader, filter watchfilter.Filter, elected <-chan struct{}) *Inventory {
	return &Inventory{cache, filter, elected}
}

// gauges holds the counts of one scrape.
type gauges struct {
	hosts, unschedulable, agents, waiting *prometheus.GaugeVec
}

func newGauges() gauges {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	return gauges{
		hosts: gauge(Hosts, "Number of CapstanHosts by phase.", "namespace", "zone", "phase"),
		unschedulable: gauge(
			Unschedulable, "Number of CapstanHosts whose spec keeps new machines away.", "namespace", "zone",
		),
		agents: gauge(Agents, "Number of CapstanHosts by agent version, which is empty before the first report.",
			"version"),
		waiting: gauge(Waiting, "Number of CapstanMachines without a host, by the reason of their condition HostClaimed.",
			"namespace", "reason"),
	}
}

func (g gauges) each(do func(*prometheus.GaugeVec)) {
	for _, vec := range []*prometheus.GaugeVec{g.hosts, g.unschedulable, g.agents, g.waiting} {
		do(vec)
	}
}

// Describe sends the descriptions of the gauges.
func (i *Inventory) Describe(to chan<- *prometheus.Desc) {
	newGauges().each(func(vec *prometheus.GaugeVec) { vec.Describe(to) })
}

// Collect sends the gauges, or an invalid metric if the cache can't be read.
func (i *Inventory) Collect(to chan<- prometheus.Metric) {
	select {
	case <-i.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	found, err := i.count(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	found.each(func(vec *prometheus.GaugeVec) { vec.Collect(to) })
}

func (i *Inventory) count(ctx context.Context) (gauges, error) {
	g := newGauges()
	hosts, machines := &infrav1.CapstanHostList{}, &infrav1.CapstanMachineList{}
	if err := i.cache.List(ctx, hosts, client.UnsafeDisableDeepCopy); err != nil {
		return g, fmt.Errorf("listing CapstanHosts: %w", err)
	}
	if err := i.cache.List(ctx, machines, client.UnsafeDisableDeepCopy); err != nil {
		return g, fmt.Errorf("listing CapstanMachines: %w", err)
	}
	for n := range hosts.Items {
		host := &hosts.Items[n]
		if !i.filter.Matches(host) {
			continue
		}
		g.hosts.WithLabelValues(host.Namespace, host.Spec.Zone, string(phaseOf(host))).Inc()
		g.agents.WithLabelValues(versionOf(host)).Inc()
		if host.Spec.Closed() {
			g.unschedulable.WithLabelValues(host.Namespace, host.Spec.Zone).Inc()
		}
	}
	for n := range machines.Items {
		m := &machines.Items[n]
		if i.filter.Matches(m) && m.Status.Host == "" && m.DeletionTimestamp.IsZero() {
			g.waiting.WithLabelValues(m.Namespace, reasonOf(m, infrav1.HostClaimedCondition)).Inc()
		}
	}
	return g, nil
}

func phaseOf(host *infrav1.CapstanHost) infrav1.HostPhase {
	if host.Status.Phase == "" {
		return infrav1.HostEnrolling
	}
	return host.Status.Phase
}

func versionOf(host *infrav1.CapstanHost) string {
	if host.Status.Agent == nil {
		return ""
	}
	return host.Status.Agent.Version
}
