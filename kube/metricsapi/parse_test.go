package metricsapi

import (
	"maps"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	now := time.UnixMilli(9_000_000)
	text := strings.Join([]string{
		"# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time",
		`container_cpu_usage_seconds_total{container="c",namespace="n",pod="p"} 1.5 5000000`,
		`container_memory_working_set_bytes{container="c",namespace="n",pod="p"} 4.096e+06 5000000`,
		`container_start_time_seconds{container="c",namespace="n",pod="p"} 3000.25`,
		`container_swap_usage_bytes{container="other",namespace="n",pod="p"} 1 5000000`,
		`container_cpu_usage_seconds_total{container="d",namespace="n",pod="p"} 2`,
		`container_cpu_usage_seconds_total{container="e",namespace="n",pod="p"} NaN`,
		`container_cpu_usage_seconds_total{container="f",namespace="n",pod="p"} -1`,
		"node_cpu_usage_seconds_total 300 6000000",
		"node_memory_working_set_bytes 1024 6000000",
		"scrape_error 0",
		"}", " ", "", "{} x",
	}, "\n")
	got, err := parse(strings.NewReader(text), now)
	want := map[container]point{
		{"n", "p", "c"}: {time.UnixMilli(5_000_000), 1.5, 4096000, time.UnixMilli(3_000_250)},
		{"n", "p", "d"}: {at: now, cpu: 2},
		{}:              {at: time.UnixMilli(6_000_000), cpu: 300, memory: 1024},
	}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for name, text := range map[string]string{
		"a long line":   "node_cpu_usage_seconds_total " + strings.Repeat("1", 1<<20),
		"too much text": strings.Repeat("# a comment of some length, again and again and again\n", bodyLimit/50),
	} {
		if _, err := parse(strings.NewReader(text), now); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`container_cpu_usage_seconds_total{container="c",namespace="n",pod="p"} 1.5 5000000`)
	f.Add("node_cpu_usage_seconds_total 300")
	f.Fuzz(func(t *testing.T, text string) {
		points, err := parse(strings.NewReader(text), time.Now())
		if err != nil {
			return
		}
		for key, p := range points {
			if p.cpu < 0 || p.memory < 0 {
				t.Errorf("%v has used %v", key, p)
			}
		}
	})
}
