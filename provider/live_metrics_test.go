//go:build linux

package provider

import "maps"

// measured waits until the metrics have these values: the sums of gauges and counters, and the counts of histograms.
func (l *live) measured(want map[string]float64) {
	l.Helper()
	got := map[string]float64{}
	l.Cleanup(func() {
		if l.Failed() {
			l.Logf("metrics: %v", got)
		}
	})
	l.until("the metrics have the expected values", func() bool {
		families, err := l.metrics.Gather()
		l.must(err)
		clear(got)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				got[family.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
					float64(m.GetHistogram().GetSampleCount())
			}
		}
		found := map[string]float64{}
		for name := range want {
			found[name] = got[name]
		}
		return maps.Equal(found, want)
	})
}
