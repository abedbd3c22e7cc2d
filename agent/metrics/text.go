package metrics

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// Family describes a metric for its reference.
type Family struct {
	Name, Kind string
	Labels     []string
	Help       string
	write      func(*strings.Builder, *Metrics, string)
}

// families are all metrics of an agent, sorted by name.
var families = []Family{
	{
		"capstan_agent_bootstrap_duration_seconds", "histogram", []string{"result"},
		"Seconds that the last attempt of each ended bootstrap took.",
		func(b *strings.Builder, m *Metrics, name string) { histograms(b, name, m.bootstraps) },
	},
	{
		"capstan_agent_build_info", "gauge", []string{"version", "go_version"},
		"Always 1. The labels contain the versions of the agent and of Go.",
		func(b *strings.Builder, m *Metrics, name string) {
			fmt.Fprintf(b, "%s{version=\"%s\",go_version=\"%s\"} 1\n", name, escape(m.version), escape(runtime.Version()))
		},
	},
	{
		"capstan_agent_carries_machine", "gauge", nil,
		"1 if the host has a machine or leftovers of a machine, else 0.",
		func(b *strings.Builder, m *Metrics, name string) {
			carries := 0
			if m.report != nil && m.report().Carries != "" {
				carries = 1
			}
			fmt.Fprintf(b, "%s %d\n", name, carries)
		},
	},
	{
		"capstan_agent_claims_total", "counter", nil,
		"Number of claims for which the agent has begun a bootstrap.",
		func(b *strings.Builder, m *Metrics, name string) { fmt.Fprintf(b, "%s %d\n", name, m.claims) },
	},
	{
		"capstan_agent_cleaning_duration_seconds", "histogram", []string{"result"},
		"Seconds that attempts to clean the host took. An attempt that left something behind counts as failed.",
		func(b *strings.Builder, m *Metrics, name string) { histograms(b, name, m.cleanings) },
	},
	{
		"capstan_agent_leftovers", "gauge", nil,
		"Number of things that the last cleaning left behind, up to the limit of a report. Until it is 0, the host is " +
			"quarantined.",
		func(b *strings.Builder, m *Metrics, name string) {
			left := 0
			if m.report != nil {
				if cleaning := m.report().Cleaning; cleaning != nil {
					left = len(cleaning.Leftovers)
				}
			}
			fmt.Fprintf(b, "%s %d\n", name, left)
		},
	},
	{
		"capstan_agent_token_renewals_total", "counter", []string{"result"},
		"Number of attempts to renew the agent's token.",
		func(b *strings.Builder, m *Metrics, name string) {
			for _, result := range []string{failed, succeeded} {
				fmt.Fprintf(b, "%s{result=%q} %d\n", name, result, m.renewals[result])
			}
		},
	},
	{
		"capstan_agent_watch_reconnects_total", "counter", nil,
		"Number of times that the watch of the CapstanHost ended and was started again.",
		func(b *strings.Builder, m *Metrics, name string) { fmt.Fprintf(b, "%s %d\n", name, m.reconnects) },
	},
}

// Families describes all metrics of an agent, sorted by name.
func Families() []Family { return families }

// Text returns all metrics in Prometheus' text format.
func (m *Metrics) Text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, f := range families {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.Name, f.Help, f.Name, f.Kind)
		f.write(&b, m, f.Name)
	}
	return b.String()
}

// histograms writes a histogram for each result.
func histograms(b *strings.Builder, name string, of map[string]*histogram) {
	for _, result := range []string{failed, succeeded} {
		h, total := of[result], uint64(0)
		for i, count := range h.counts {
			total += count
			bound := "+Inf"
			if i < len(buckets) {
				bound = number(buckets[i])
			}
			fmt.Fprintf(b, "%s_bucket{result=%q,le=%q} %d\n", name, result, bound, total)
		}
		fmt.Fprintf(b, "%s_sum{result=%q} %s\n%s_count{result=%q} %d\n", name, result, number(h.sum), name, result, total)
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// escape returns a label's value as the format requires it between quotes.
func escape(value string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "?"))
}
