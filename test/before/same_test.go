package before

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/dock"
)

// kinds lists the kinds whose objects must not be recreated while a plane is replaced.
const kinds = "clusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines,kubeadmconfigs," +
	"capstanclusters,capstanmachines,clusterclasses"

// lasting are the processes of a host that must not be restarted. kube-controller-manager and kube-scheduler are not
// among them, because they exit when the machine is too busy for their leases.
var lasting = []string{"etcd", "kube-apiserver", "kubelet", "cri", "capstan-agent"}

// state is what must stay the same when a plane is replaced: a line for each item.
type state struct{ objects, nodes, hosts, processes []string }

// state returns the current state.
func (p *place) state() state {
	p.Helper()
	lines := func(args ...string) []string {
		all := strings.Split(strings.TrimSpace(p.must(append([]string{"kubectl"}, args...)...)), "\n")
		slices.Sort(all)
		return all
	}
	var s state
	s.objects = slices.Concat(
		lines("get", kinds, "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.uid}{"\n"}{end}`),
		lines("get", "capstanhosts", "-o", `jsonpath={range .items[*]}host {.metadata.name} {.metadata.uid} `+
			`{.spec.claim.machine} {.spec.claim.providerID}{"\n"}{end}`))
	s.nodes = lines("--cluster", "demo", "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} `+
		`{.metadata.uid} {.status.nodeInfo.bootID}{"\n"}{end}`)
	c := dock.Connect(p.home)
	defer c.Close()
	hosts, err := c.ListHosts(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for _, h := range hosts {
		if h.PID > 0 {
			s.hosts = append(s.hosts, fmt.Sprint(h.Name, " ", h.PID, " ", h.Since.UTC()))
			s.processes = append(s.processes, lastingOn(h.Name, h.PID)...)
		}
	}
	return s
}

// same fails the test if the state has changed.
func (p *place) same(was state) {
	p.Helper()
	is := p.state()
	p.compare("objects", was.objects, is.objects)
	p.compare("nodes", was.nodes, is.nodes)
	p.compare("hosts", was.hosts, is.hosts)
	p.compare("processes", was.processes, is.processes)
}

// compare fails the test if two lists differ, or are empty.
func (p *place) compare(what string, was, is []string) {
	p.Helper()
	if len(was) == 0 || was[0] == "" || !slices.Equal(was, is) {
		p.Errorf("%s: want at least one, and the same ones as before; before:\n%s\nnow:\n%s",
			what, strings.Join(was, "\n"), strings.Join(is, "\n"))
	}
}

// plane returns the plane's unit, which must run the installed program.
func (p *place) plane() dock.UnitStatus {
	p.Helper()
	c := dock.Connect(p.home)
	defer c.Close()
	units, err := c.ListUnits(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for _, u := range units {
		if u.Name == "plane" && u.Running {
			return u
		}
	}
	p.Fatalf("no plane is running: %+v", units)
	return dock.UnitStatus{}
}

// runsWhatIsInstalled fails the test if the plane is not a process of the currently installed program.
func (p *place) runsWhatIsInstalled() {
	p.Helper()
	if pid := p.plane().PID; !slices.Contains(p.processesOf(filepath.Join(p.dir, "capstan")), pid) {
		p.Errorf("the plane, process %d, does not run the installed program", pid)
	}
}

// processesOf returns the processes that run the current file of a program.
func (p *place) processesOf(program string) []int {
	p.Helper()
	file, err := os.Stat(program)
	if err != nil {
		p.Fatal(err)
	}
	var all []int
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if runs, err := os.Stat(link); err == nil && os.SameFile(runs, file) {
			all = append(all, pid)
		}
	}
	return all
}

// lastingOn returns the lasting processes below the first process of a host: name, pid and start time of each.
func lastingOn(host string, first int) []string {
	parents, began := map[int]int{}, map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it exited meanwhile
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		began[pid] = fields[19]
	}
	var all []string
	for pid := range parents {
		of := pid
		for of != first && of > 1 {
			of = parents[of]
		}
		if name := nameOf(pid); of == first && slices.Contains(lasting, name) {
			all = append(all, fmt.Sprint(host, " ", name, " ", pid, " ", began[pid]))
		}
	}
	slices.Sort(all)
	return all
}

// nameOf returns the name of a process: its program, or its applet in a bundle.
func nameOf(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := strings.Split(string(line), "\x00")
	if name := filepath.Base(args[0]); name != "capstan-kube" || len(args) < 2 {
		return name
	}
	return args[1]
}
