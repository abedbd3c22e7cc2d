package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// bound is by how much, in percent, the plane's own extensions may slow down operations on a cluster while they hold
// nothing back.
const bound = 5

// sides are the two sides of the comparison.
var sides = []string{"on", "off"}

// compareExtensions creates and upgrades clusters with and without the plane's own extensions, in turns, so that both
// sides run under the same conditions, and prints what the extensions cost. Without a bundle of the previous Kubernetes
// minor, nothing is upgraded.
func (b *bench) compareExtensions(ctx context.Context, times int) error {
	if err := b.do(ctx, "up"); err != nil {
		return err
	}
	from, to, err := b.versions()
	if err != nil {
		return err
	}
	took := map[string][]time.Duration{} // by operation and side
	for i := range times {
		turn := slices.Clone(sides)
		if i%2 == 1 {
			slices.Reverse(turn) // neither side always comes first
		}
		for _, side := range turn {
			if err := b.compareOnce(ctx, side, fmt.Sprintf("%s-%d", side, i), from, to, took); err != nil {
				return err
			}
		}
	}
	b.printComparison(took)
	return nil
}

// versions returns the two newest versions that have a bundle: "to" is the newest, "from" is the one before. If there
// is only one bundle, "from" is empty.
func (b *bench) versions() (from, to string, err error) {
	bundles, err := filepath.Glob(filepath.Join(filepath.Dir(b.capstan), "bundles", "v*"))
	if err != nil || len(bundles) == 0 {
		return "", "", errors.Join(err, errors.New("no Kubernetes bundle is built: run make build"))
	}
	slices.Sort(bundles)
	to = filepath.Base(bundles[len(bundles)-1])
	if len(bundles) > 1 {
		from = filepath.Base(bundles[len(bundles)-2])
	}
	return from, to, nil
}

// compareOnce takes one cluster through its life.
func (b *bench) compareOnce(
	ctx context.Context, side, name, from, to string, took map[string][]time.Duration,
) error {
	if err := b.switchExtensions(ctx, side == "on"); err != nil {
		return err
	}
	version := to
	if from != "" {
		version = from
	}
	type step struct {
		operation string
		args      []string
	}
	steps := []step{
		{"create 1 + 1", []string{"cluster", "create", name, "--workers", "1", "--kubernetes-version", version}},
	}
	if from != "" {
		steps = append(steps, step{"upgrade 1 + 1", []string{"cluster", "upgrade", name, "--kubernetes-version", to}})
	}
	steps = append(steps, step{"delete", []string{"cluster", "delete", name}})
	for _, s := range steps {
		fmt.Fprintf(os.Stderr, "… %s, extensions %s (load average %s)\n", s.operation, side, loadAverage())
		start := time.Now()
		if err := b.do(ctx, s.args...); err != nil {
			return err
		}
		took[s.operation+side] = append(took[s.operation+side], time.Since(start))
	}
	out, err := b.command(ctx, "hook", "timeline", name, "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("reading the timeline of %s: %w", name, err)
	}
	var timeline struct{ Calls []struct{} }
	if err := json.Unmarshal(out, &timeline); err != nil {
		return err
	}
	if calls := len(timeline.Calls); (calls > 0) != (side == "on") {
		return fmt.Errorf("with extensions %s there were %d calls, so the comparison is meaningless", side, calls)
	}
	return nil
}

// switchExtensions turns the plane's own extensions on or off, and waits until the plane has noticed.
func (b *bench) switchExtensions(ctx context.Context, on bool) error {
	selector := `null`
	if !on {
		selector = `{"matchLabels":{"kubernetes.io/metadata.name":"no-namespace"}}`
	}
	if err := b.do(ctx, "kubectl", "patch", "extensionconfig", "capstan", "--type", "merge", "-p",
		`{"spec":{"namespaceSelector":`+selector+`}}`); err != nil {
		return err
	}
	for range 300 {
		out, err := b.command(ctx, "kubectl", "get", "extensionconfig", "capstan", "-o",
			`jsonpath={.metadata.generation} {.status.conditions[?(@.type=="Discovered")].observedGeneration}`).Output()
		if generation, observed, _ := strings.Cut(string(out), " "); err == nil && generation != "" &&
			generation == observed {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the plane did not notice a change of ExtensionConfig capstan within half a minute")
}

// loadAverage returns the load average of the last minute.
func loadAverage() string {
	data, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(data), " ")
	return load
}

func (b *bench) printComparison(took map[string][]time.Duration) {
	fmt.Printf("\nThe plane's own extensions on and off, in turns; the bound is %d %% more. Medians, and the shortest "+
		"of all.\n\n", bound)
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "WHAT\tTIMES\tON\tOFF\tMORE\tSHORTEST ON\tSHORTEST OFF\tMORE")
	for _, operation := range []string{"create 1 + 1", "upgrade 1 + 1", "delete"} {
		on, off := took[operation+"on"], took[operation+"off"]
		if len(on) == 0 || len(off) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f s\t%.1f s\t%+.1f %%\t%.1f s\t%.1f s\t%+.1f %%\n", operation, len(on),
			median(on).Seconds(), median(off).Seconds(), more(median(on), median(off)),
			slices.Min(on).Seconds(), slices.Min(off).Seconds(), more(slices.Min(on), slices.Min(off)))
	}
	w.Flush()
}

// more returns by how many percent a exceeds b.
func more(a, b time.Duration) float64 { return (float64(a)/float64(b) - 1) * 100 }

// median returns the middle value, or the mean of the two middle values.
func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
