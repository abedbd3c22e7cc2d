package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// creations is how often a cluster is created.
	creations = 3
	// rest is the time that must pass after a cluster's creation until the cluster counts as idle.
	rest = 30 * time.Second
	// idleFor is how long the idle cluster is then watched.
	idleFor = time.Minute
)

// measure measures the starts of a plane, and a cluster with real pods, at the level of the user who runs it. If life
// is set, it then measures later operations on that cluster: see the method life.
func (b *bench) measure(ctx context.Context, life, ha bool) error {
	for _, o := range []struct {
		id   string
		args []string
	}{{"up", []string{"up"}}, {"", []string{"down"}}, {"up-again", []string{"up"}}} {
		took, err := b.time(ctx, o.args...)
		if err != nil {
			return err
		}
		if o.id != "" {
			b.add(o.id, took.Seconds(), b.planePhases())
		}
	}
	if err := b.pods(ctx, "one"); err != nil {
		return err
	}
	if life {
		return b.life(ctx, ha)
	}
	return nil
}

// pods creates a cluster with real pods, and measures it. It then creates the cluster again, several times: a new
// kubelet delays the first readiness probe of a container by a random part of the probe's period, which is ten seconds
// in CoreDNS, so a single creation says little.
func (b *bench) pods(ctx context.Context, name string) error {
	if err := b.do(ctx, "image", "build", webImage, filepath.Join("bin", "web")); err != nil {
		return err
	}
	var all []creation
	for i := range creations {
		if i > 0 {
			if err := b.do(ctx, "cluster", "delete", name); err != nil {
				return err
			}
		}
		c, w, err := b.create(ctx, name)
		if err != nil {
			return err
		}
		all = append(all, c)
		if i > 0 {
			continue
		}
		if b.level, err = w.level(ctx, os.Getuid()); err != nil {
			return err
		}
		if err := b.resting(); err != nil {
			return err
		}
		if err := b.starts(ctx, w); err != nil {
			return err
		}
	}
	middle, from := middleOf(all, func(c creation) time.Duration { return c.ready })
	b.add("create", middle.ready.Seconds(), append([]string{from}, middle.machines...)...)
	middle, from = middleOf(all, func(c creation) time.Duration { return c.served })
	b.add("create-service", middle.served.Seconds(), append([]string{from}, middle.pods...)...)
	return nil
}

// resting measures the plane and a cluster that do nothing.
func (b *bench) resting() error {
	b.say("resting, then %s of doing nothing", idleFor)
	time.Sleep(rest)
	percent, table, err := idle(b.home, idleFor)
	if err != nil {
		return err
	}
	b.add("idle", percent, table...)
	gib, table, err := memory(b.home)
	if err != nil {
		return err
	}
	b.add("memory", gib, table...)
	return nil
}

// creation is what one creation of a cluster took.
type creation struct {
	ready, served  time.Duration // until all Nodes were Ready, until a pod had fetched a Service by its name
	machines, pods []string      // when they reached each step
}

// create creates a cluster and fetches a Service in it.
func (b *bench) create(ctx context.Context, name string) (c creation, w *workload, err error) {
	began := time.Now()
	if c.ready, err = b.time(ctx, "cluster", "create", name, "--control-plane", "1", "--workers", "2"); err != nil {
		return c, nil, err
	}
	w, err = b.workload(ctx, name)
	if err != nil {
		return c, nil, err
	}
	if err := w.serveByName(ctx); err != nil {
		return c, nil, err
	}
	c.served = time.Since(began)
	b.say("a Service was fetched by its name after %.1f s", c.served.Seconds())
	c.machines = b.clusterPhases(name)
	c.pods, err = w.serving(ctx, b.created(ctx, name))
	return c, w, err
}

// middleOf returns the creation whose time is the median of all, and a text with all times.
func middleOf(all []creation, of func(creation) time.Duration) (middle creation, text string) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b creation) int { return cmp.Compare(of(a), of(b)) })
	var values []string
	for _, c := range sorted {
		values = append(values, show(of(c).Seconds()))
	}
	return sorted[len(sorted)/2], fmt.Sprintf("median of %s s; its steps, in seconds:",
		strings.Join(values, ", "))
}

// starts measures starts of pods.
func (b *bench) starts(ctx context.Context, w *workload) error {
	b.say("%d pods, one after another", manyPods)
	all, err := w.oneAfterAnother(ctx, manyPods)
	if err != nil {
		return err
	}
	var scheduled, ready []time.Duration
	for _, s := range all {
		scheduled, ready = append(scheduled, s.scheduled), append(ready, s.ready)
	}
	b.add("pod-50", percentile(ready, 50).Seconds(), fmt.Sprintf("scheduled after %.3f s (median); the fastest was Ready "+
		"after %.2f s, the slowest after %.2f s", percentile(scheduled, 50).Seconds(), percentile(ready, 0).Seconds(),
		percentile(ready, 100).Seconds()))
	b.add("pod-99", percentile(ready, 99).Seconds())
	b.say("%d pods at once", manyPods)
	took, err := w.many(ctx, manyPods)
	if err != nil {
		return err
	}
	b.add("pods-100", took.Seconds())
	return nil
}

// life measures later operations on the cluster: scaling it, replacing a worker, deleting it. If ha is set, it then
// measures a cluster of three control planes.
func (b *bench) life(ctx context.Context, ha bool) error {
	measure := func(id string, args ...string) error {
		took, err := b.time(ctx, args...)
		if err == nil {
			b.add(id, took.Seconds())
		}
		return err
	}
	if err := measure("scale-workers", "cluster", "scale", "one", "--workers", "3"); err != nil {
		return err
	}
	if err := b.replaceWorker(ctx); err != nil {
		return err
	}
	if err := measure("scale-control-plane", "cluster", "scale", "one", "--control-plane", "3"); err != nil {
		return err
	}
	if err := measure("delete", "cluster", "delete", "one"); err != nil || !ha {
		return err
	}
	took, err := b.time(ctx, "cluster", "create", "ha", "--control-plane", "3", "--workers", "2")
	if err != nil {
		return err
	}
	b.add("create-ha", took.Seconds(), b.clusterPhases("ha")...)
	gib, table, err := memory(b.home)
	if err != nil {
		return err
	}
	b.add("memory-ha", gib, table...)
	return measure("delete-ha", "cluster", "delete", "ha")
}

// replaceWorker deletes a worker's Machine and waits until another one is Ready in its place.
func (b *bench) replaceWorker(ctx context.Context) error {
	b.say("a deleted worker is replaced")
	machines := func() (workers map[string]bool) {
		workers = map[string]bool{}
		for _, m := range b.list(ctx, "machines") {
			if m.Metadata.Labels["cluster.x-k8s.io/deployment-name"] != "" {
				workers[m.Metadata.Name] = m.since(time.Time{}, "NodeReady") != "?"
			}
		}
		return workers
	}
	before := machines()
	victim := ""
	for victim = range before {
		break
	}
	start := time.Now()
	if err := b.do(ctx, "kubectl", "delete", "machine", victim, "--wait=false"); err != nil {
		return err
	}
	for time.Since(start) < 3*time.Minute && ctx.Err() == nil {
		now := machines()
		ready := 0
		for _, ok := range now {
			if ok {
				ready++
			}
		}
		if _, still := now[victim]; !still && ready == len(before) {
			b.add("replace", time.Since(start).Seconds())
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the deleted worker %s was not replaced within 3 minutes", victim)
}

// bench is a plane that only this benchmark uses, with the figures measured on it.
type bench struct {
	capstan string
	home    string
	level   string
	figures []figure
}

// newBench creates a home directory for a plane.
func newBench() (*bench, error) {
	binary, err := filepath.Abs("bin/capstan")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("bin/capstan is not built, run make build: %w", err)
	}
	home, err := os.MkdirTemp("", "capstan-bench-")
	return &bench{capstan: binary, home: home}, err
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, "… "+format+"\n", args...) }

func (b *bench) add(id string, value float64, where ...string) {
	f := newFigure(id, b.level, value, where...)
	b.say("%s: %s %s %s", f.Name, show(f.Value), f.Unit, f.verdict())
	b.figures = append(b.figures, f)
}

func (b *bench) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+b.home)
	return cmd
}

func (b *bench) do(ctx context.Context, args ...string) error {
	if out, err := b.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("capstan %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (b *bench) output(ctx context.Context, args ...string) ([]byte, error) {
	out, err := b.command(ctx, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("capstan %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// time returns how long a command takes.
func (b *bench) time(ctx context.Context, args ...string) (time.Duration, error) {
	b.say("capstan %s", strings.Join(args, " "))
	start := time.Now()
	err := b.do(ctx, args...)
	return time.Since(start), err
}
