// Command bench measures Capstan as a user meets it: it runs the built binaries in a directory of its own and prints
// how long each operation takes, phase by phase, and how much memory all of it takes, beside the bounds that the
// project has set itself.
//
//	go run ./hack/bench [-ha] [-keep]
//	go run ./hack/bench -extensions 5
//
// Figures depend on the machine and on what else it does: compare those of one run, or the same run before and after a
// change.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	ha := flag.Bool("ha", true, "also measure a cluster with three control plane machines")
	keep := flag.Bool("keep", false, "leave everything running at the end")
	extensions := flag.Int("extensions", 0,
		"instead: so many times, make and upgrade a cluster with the plane's own extensions and without, and compare")
	flag.Parse()
	if err := run(*ha, *keep, *extensions); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// result is one line of the table.
type result struct {
	name  string
	took  time.Duration
	must  string
	aim   string
	where string // where the time went
}

type bench struct {
	capstan string
	home    string
	results []result
}

func run(ha, keep bool, extensions int) (err error) {
	binary, err := filepath.Abs("bin/capstan")
	if err != nil {
		return err
	}
	if _, err := os.Stat(binary); err != nil {
		return errors.New("bin/capstan is not built: run make build")
	}
	home, err := os.MkdirTemp("", "capstan-bench-")
	if err != nil {
		return err
	}
	b := &bench{capstan: binary, home: home}
	if !keep {
		defer func() { err = errors.Join(err, b.do("down", "--delete")) }()
	}
	if extensions > 0 {
		return b.compareExtensions(extensions)
	}
	if err := b.measure(ha); err != nil {
		return err
	}
	b.print()
	return nil
}

func (b *bench) measure(ha bool) error {
	type op struct {
		name, must, aim string
		args            []string
		where           func() string
	}
	ops := []op{
		{"up, empty directory", "12 s", "8 s", []string{"up"}, b.planePhases},
		{"(down)", "", "", []string{"down"}, nil},
		{"up, existing data", "8 s", "5 s", []string{"up"}, b.planePhases},
		{"create 1 + 2 to all Nodes Ready", "40 s", "20 s", []string{"cluster", "create", "one"},
			func() string { return b.clusterPhases("one") }},
		{"workers 2 to 3", "10 s", "5 s", []string{"cluster", "scale", "one", "--workers", "3"}, nil},
	}
	for _, o := range ops {
		if err := b.time(o.name, o.must, o.aim, o.where, o.args...); err != nil {
			return err
		}
		if strings.HasPrefix(o.name, "create 1") {
			b.memory("memory (PSS) of plane + one 1 + 2 cluster", "1.3 GiB", "0.9 GiB")
		}
	}
	if err := b.replaceWorker("one"); err != nil {
		return err
	}
	if err := b.time("control plane 1 to 3", "60 s", "40 s", nil, "cluster", "scale", "one", "--control-plane",
		"3"); err != nil {
		return err
	}
	if err := b.time("delete the cluster", "10 s", "3 s", nil, "cluster", "delete", "one"); err != nil {
		return err
	}
	if !ha {
		return nil
	}
	if err := b.time("create 3 + 2 to all Nodes Ready", "100 s", "60 s", func() string { return b.clusterPhases("ha") },
		"cluster", "create", "ha", "--control-plane", "3", "--workers", "2"); err != nil {
		return err
	}
	b.memory("memory (PSS) of plane + one 3 + 2 cluster", "", "")
	return b.time("delete 3 + 2", "", "", nil, "cluster", "delete", "ha")
}

func (b *bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(b.capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+b.home)
	return cmd
}

func (b *bench) do(args ...string) error {
	if out, err := b.command(args...).CombinedOutput(); err != nil {
		return fmt.Errorf("capstan %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (b *bench) time(name, must, aim string, where func() string, args ...string) error {
	fmt.Fprintf(os.Stderr, "… %s\n", name)
	start := time.Now()
	if err := b.do(args...); err != nil {
		return err
	}
	r := result{name: name, took: time.Since(start), must: must, aim: aim}
	if where != nil {
		r.where = where()
	}
	b.results = append(b.results, r)
	return nil
}

// planePhases tells how the last start of the plane was spent.
func (b *bench) planePhases() string {
	var state struct {
		Phases []struct {
			Name     string
			Start    int64 `json:"startMilliseconds"`
			Duration int64 `json:"durationMilliseconds"`
		}
	}
	data, err := os.ReadFile(filepath.Join(b.home, "plane", "ready.json"))
	if err != nil || json.Unmarshal(data, &state) != nil {
		return ""
	}
	var parts []string
	for _, p := range state.Phases {
		parts = append(parts, fmt.Sprintf("%s %.1f", p.Name, float64(p.Duration)/1000))
	}
	return strings.Join(parts, ", ")
}

type object struct {
	Metadata struct {
		Name              string
		CreationTimestamp time.Time
		Labels            map[string]string
	}
	Spec struct {
		Claim *struct{ Cluster, Machine string }
	}
	Status struct {
		Conditions []struct {
			Type, Status       string
			LastTransitionTime time.Time
		}
		Agent *struct {
			Bootstrap *struct{ StartTime, CompletionTime time.Time }
		}
	}
}

// since gives the seconds from start to the time when a condition became true.
func (o object) since(start time.Time, condition string) string {
	for _, c := range o.Status.Conditions {
		if c.Type == condition && c.Status == "True" {
			return fmt.Sprintf("%.0f", c.LastTransitionTime.Sub(start).Seconds())
		}
	}
	return "?"
}

func (b *bench) list(kind string) []object {
	out, err := b.command("kubectl", "get", kind, "-o", "json").Output()
	var list struct{ Items []object }
	if err != nil || json.Unmarshal(out, &list) != nil {
		return nil
	}
	return list.Items
}

// clusterPhases tells when each machine of a cluster reached each step, in seconds after the Cluster was created. The
// API keeps whole seconds.
func (b *bench) clusterPhases(name string) string {
	var start time.Time
	for _, c := range b.list("clusters") {
		if c.Metadata.Name == name {
			start = c.Metadata.CreationTimestamp
		}
	}
	bootstrap := map[string]string{}
	for _, h := range b.list("capstanhosts") {
		if c := h.Spec.Claim; c != nil && h.Status.Agent != nil && h.Status.Agent.Bootstrap != nil {
			r := h.Status.Agent.Bootstrap
			bootstrap[c.Machine] = fmt.Sprintf("kubeadm %.0f to %.0f", r.StartTime.Sub(start).Seconds(),
				r.CompletionTime.Sub(start).Seconds())
		}
	}
	var parts []string
	for _, m := range b.list("machines") {
		if m.Metadata.Labels["cluster.x-k8s.io/cluster-name"] != name {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s: made %.0f, %s, Node Ready %s", strings.TrimPrefix(m.Metadata.Name, name+"-"),
			m.Metadata.CreationTimestamp.Sub(start).Seconds(), bootstrap[m.Metadata.Name], m.since(start, "NodeReady")))
	}
	sort.Strings(parts)
	return strings.Join(parts, "; ")
}

// replaceWorker deletes a worker's Machine and waits until another one is Ready in its place.
func (b *bench) replaceWorker(cluster string) error {
	const name = "a deleted worker replaced"
	fmt.Fprintf(os.Stderr, "… %s\n", name)
	machines := func() (workers map[string]bool) {
		workers = map[string]bool{}
		for _, m := range b.list("machines") {
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
	if err := b.do("kubectl", "delete", "machine", victim, "--wait=false"); err != nil {
		return err
	}
	for time.Since(start) < 3*time.Minute {
		now := machines()
		ready := 0
		for _, ok := range now {
			if ok {
				ready++
			}
		}
		if _, still := now[victim]; !still && ready == len(before) {
			b.results = append(b.results, result{name: name, took: time.Since(start), must: "12 s", aim: "6 s"})
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the deleted worker %s was not replaced within 3 minutes", victim)
}

// memory adds up the proportional set size of every process of this home directory's dock.
func (b *bench) memory(name, must, aim string) {
	byName := map[string]int{}
	total := 0
	for _, pid := range descendants(b.home) {
		data, err := os.ReadFile(filepath.Join("/proc", pid, "smaps_rollup"))
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(data), "\n") {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, _ := strconv.Atoi(strings.Fields(rest)[0])
				total += kib
				byName[processName(pid)] += kib
			}
		}
	}
	var parts []string
	for n := range byName {
		parts = append(parts, n)
	}
	sort.Slice(parts, func(i, j int) bool { return byName[parts[i]] > byName[parts[j]] })
	for i, n := range parts {
		parts[i] = fmt.Sprintf("%s %d", n, byName[n]>>10)
	}
	b.results = append(b.results, result{
		name: fmt.Sprintf("%s: %.2f GiB", name, float64(total)/(1<<20)), must: must, aim: aim,
		where: "MiB: " + strings.Join(parts, ", "),
	})
}

// descendants lists the pids of the dock of a home directory and of all below it.
func descendants(home string) []string {
	children := map[string][]string{}
	var roots []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		pid := filepath.Base(filepath.Dir(s))
		data, err := os.ReadFile(s)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		children[fields[1]] = append(children[fields[1]], pid)
		cmdline, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if bytes.Contains(cmdline, []byte("capstan-dock\x00run")) && bytes.Contains(cmdline, []byte(home)) {
			roots = append(roots, pid)
		}
	}
	seen := map[string]bool{}
	var all []string
	for len(roots) > 0 {
		pid := roots[0]
		roots = append(roots[1:], children[pid]...)
		if !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
		}
	}
	return all
}

// processName is the name of what a process runs: the applet, for a binary that holds several.
func processName(pid string) string {
	data, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil {
		return "?"
	}
	args := strings.Split(string(data), "\x00")
	name := filepath.Base(args[0])
	if (name == "capstan-kube" || name == "capstan-dock" || name == "capstan") && len(args) > 1 {
		name += " " + filepath.Base(args[1])
	}
	return name
}

func (b *bench) print() {
	fmt.Printf("\n%s/%s, %d processors\n\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "WHAT\tTOOK\tMUST\tAIM")
	for _, r := range b.results {
		took := "-"
		if r.took > 0 {
			took = fmt.Sprintf("%.1f s", r.took.Seconds())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.name, took, r.must, r.aim)
	}
	w.Flush()
	fmt.Println("\nWhere the time and the memory go (seconds):")
	for _, r := range b.results {
		if r.where != "" {
			fmt.Printf("  %s\n    %s\n", r.name, strings.ReplaceAll(r.where, "; ", "\n    "))
		}
	}
}
