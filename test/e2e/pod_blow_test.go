package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// podBlow is one kill while real pods run.
type podBlow struct {
	victim string
	point  string // of podPoints; empty for a random time
	again  string // of podPoints: where the dock is killed again while it comes back
}

func (b podBlow) String() string {
	text := b.victim
	if b.point != "" {
		text += " when " + b.point
	}
	if b.again != "" {
		text += ", and of the dock again when " + b.again
	}
	return text
}

// wholeDock are the processes whose death stops all hosts; oneHost is the one whose death stops its host.
var wholeDock, oneHost = []string{"dock run", "dock inside"}, "dock init"

// podPoints are moments in the life of a pod that the records of hosts show. Each function compares earlier records
// with current ones.
var podPoints = map[string]func(was, now podRecords) bool{
	"a container has ended":    func(was, now podRecords) bool { return grown(was.exits, now.exits) },
	"a sandbox is recorded":    func(was, now podRecords) bool { return grown(was.sandboxes, now.sandboxes) },
	"a container is recorded":  func(was, now podRecords) bool { return grown(was.containers, now.containers) },
	"a container has started":  func(was, now podRecords) bool { return grown(was.running, now.running) },
	"a container is forgotten": func(was, now podRecords) bool { return grown(now.containers, was.containers) },
}

// podRecords are the paths of hosts' records about pods.
type podRecords struct{ sandboxes, containers, running, exits []string }

func (k *podKills) records() (r podRecords) {
	for _, host := range k.hosts {
		state := filepath.Join(homeDir, "dock/hosts", host, "root/var/lib/capstan/cri")
		for pattern, into := range map[string]*[]string{
			"sandboxes/*.json": &r.sandboxes, "containers/*": &r.containers,
			"containers/*/running.json": &r.running, "containers/*/exit.json": &r.exits,
		} {
			all, _ := filepath.Glob(filepath.Join(state, pattern))
			*into = append(*into, all...)
		}
	}
	return r
}

// grown reports whether there is a new record.
func grown(was, now []string) bool {
	return slices.ContainsFunc(now, func(path string) bool { return !slices.Contains(was, path) })
}

// choose returns the next kill. Half of the kills stop all hosts.
func (k *podKills) choose() podBlow {
	points := []string{}
	for point := range podPoints {
		points = append(points, point)
	}
	slices.Sort(points)
	victims := []string{oneHost, "plane", "plane"}
	for _, p := range processes() {
		if p.host == "" && !slices.Contains(wholeDock, p.name()) && !slices.Contains(victims, p.name()) {
			victims = append(victims, p.name())
		}
	}
	slices.Sort(victims)
	var b podBlow
	if k.random.IntN(2) == 0 {
		victims = wholeDock
		if k.random.IntN(5) == 0 {
			b.again = []string{"a container has started", "a sandbox is recorded"}[k.random.IntN(2)]
		}
	}
	b.victim = victims[k.random.IntN(len(victims))]
	if k.random.IntN(4) > 0 {
		b.point = points[k.random.IntN(len(points))]
	}
	return b
}

// strike deletes a pod, so that another one replaces it, kills the victim at the point, and restarts the dock if the
// dock has stopped. It returns how often each container of the kept pods may be restarted as a result.
func (k *podKills) strike(t *testing.T, b podBlow) map[string]restarts {
	t.Helper()
	was := k.records()
	k.deleteSomePod(t)
	if b.point == "" {
		time.Sleep(time.Duration(k.random.IntN(1500)) * time.Millisecond) // the random time
	} else {
		k.reach(t, b.point, was)
	}
	gone := namespaces()
	host := ""
	if b.victim == oneHost {
		host = k.hosts[k.random.IntN(len(k.hosts))]
	}
	killNamed(t, b.victim, host)
	allowed := map[string]restarts{}
	switch {
	case slices.Contains(wholeDock, b.victim):
		vacated(t, gone)
		once := restarts{1, 1}
		if b.again != "" {
			k.strikeAgain(t, b)
			once.atMost = 2
		}
		must(t, "up")
		for name := range k.kept {
			allowed[name] = once
		}
	case host != "":
		for name, c := range k.kept {
			if k.hostOfNode(t, c.node) == host {
				allowed[name] = restarts{1, 1}
			}
		}
	}
	return allowed
}

// strikeAgain starts the dock, and kills it at a point while it starts.
func (k *podKills) strikeAgain(t *testing.T, b podBlow) {
	t.Helper()
	was := k.records()
	start := command(t.Context(), "up")
	if err := start.Start(); err != nil {
		t.Fatal(err)
	}
	k.reach(t, b.again, was)
	gone := namespaces()
	killNamed(t, b.victim, "")
	if err := start.Wait(); err != nil { // it may have finished already, or it starts the dock again
		t.Logf("the start that was disturbed: %v", err)
		vacated(t, gone)
	}
}

// reach waits until the records of hosts show that a point is reached.
func (k *podKills) reach(t *testing.T, point string, was podRecords) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !podPoints[point](was, k.records()) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", point)
		}
		time.Sleep(time.Millisecond)
	}
}

// killNamed kills one process with a name, on a host or of the dock.
func killNamed(t *testing.T, name, host string) {
	t.Helper()
	var found []int
	for _, p := range processes() {
		if p.name() == name && p.host == host {
			found = append(found, p.pid)
		}
	}
	if len(found) == 0 {
		t.Fatalf("there is no process %s@%s", name, host)
	}
	// Other processes of this name may be forks of the first one.
	if err := syscall.Kill(slices.Min(found), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatalf("killing %s: %v", name, err)
	}
}

// vacated waits until no process is left in the namespaces of a dock that was killed.
func vacated(t *testing.T, gone map[string]string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		left := inhabited(gone)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("processes are left in the namespaces of a killed dock: %v", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// hostOfNode returns the host that a Node is on. Nodes are named after their machines.
func (k *podKills) hostOfNode(t *testing.T, node string) string {
	t.Helper()
	for _, h := range claimed(t, killedCluster) {
		if h.Machine == node {
			return h.Name
		}
	}
	t.Fatal(fmt.Errorf("no host has a machine %s", node))
	return ""
}
