//go:build linux

package contract

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// writesOf returns the manager's writes in a namespace so far, by kind. Some are for one machine: the machine itself,
// the claim, the bootstrap data. The rest are for hosts (their status, the identity of their agents), or events.
// Refused requests don't count as writes: reconciling an outdated object ends with a conflict.
func writesOf(ns string) (all map[string]int, err error) {
	all = map[string]int{}
	err = auditLog(func(r request) {
		if r.User.Username != managerUser || r.ObjectRef == nil || r.ObjectRef.Namespace != ns ||
			slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			return
		}
		if r.ResponseStatus.Code >= 300 {
			return
		}
		all[r.Verb+" "+joinSub(r.ObjectRef.Resource, r.ObjectRef.Subresource)]++
	})
	return all, err
}

// kindsOfWrites adds up writes for machines, for hosts, and of events.
func kindsOfWrites(writes map[string]int) (machine, host, event int) {
	for what, n := range writes {
		switch _, resource, _ := strings.Cut(what, " "); resource {
		case "capstanmachines", "capstanmachines/status", "capstanhosts", "secrets":
			machine += n
		case "events":
			event += n
		default:
			host += n
		}
	}
	return machine, host, event
}

func difference(after, before map[string]int) map[string]int {
	d := map[string]int{}
	for what, n := range after {
		if n -= before[what]; n != 0 {
			d[what] = n
		}
	}
	return d
}

func sum(writes map[string]int) (n int) {
	for _, w := range writes {
		n += w
	}
	return n
}

// TestWrites counts in the audit log what the manager writes for one machine from its creation until it is Ready, and
// for the next machine on the same host.
func TestWrites(t *testing.T) {
	w := newWorld(t, form{v1beta2}, 1)
	w.provisionedCluster("demo")
	var report strings.Builder
	for _, name := range []string{"first", "second"} {
		before := settled(w)
		w.newMachine(name, machineOptions{})
		w.ready(name)
		writes := difference(settled(w), before)
		machine, host, event := kindsOfWrites(writes)
		fmt.Fprintf(&report,
			"%s machine on its host: %d writes for the machine, %d for the host and its agent, %d events: %v\n", name, machine,
			host, event, writes)
		if machine > 8 {
			t.Errorf("%d writes for one machine, want 8 at most: %v", machine, writes)
		}
		w.delete(w.machine(name))
		w.gone("CapstanMachine", name)
		w.until("the host is free", func() bool { return len(w.claims()) == 0 })
	}
	t.Log("\n" + report.String())
	w.must(os.MkdirAll(reports, 0o755))
	w.must(os.WriteFile(reports+"/writes.txt", []byte(report.String()), 0o644))
}

// settled waits until the provider has written nothing for a while, and returns the writes so far. The provider
// continues to write after a machine is Ready, because it updates the status of the host.
func settled(w *world) map[string]int {
	w.Helper()
	writes, err := writesOf(w.ns)
	w.must(err)
	since := time.Now()
	w.until("the provider writes nothing for a second", func() bool {
		now, err := writesOf(w.ns)
		w.must(err)
		if sum(now) != sum(writes) {
			writes, since = now, time.Now()
		}
		return time.Since(since) > time.Second
	})
	return writes
}

// TestIdle checks that the manager writes nothing while there are only heartbeats. With CAPSTAN_TEST_IDLE=5m, it has
// 100 machines and waits that long, as "make bench-idle" does; otherwise it has fewer machines and waits for a few
// seconds.
func TestIdle(t *testing.T) {
	machines, idle := 20, 5*time.Second
	if set := os.Getenv("CAPSTAN_TEST_IDLE"); set != "" {
		d, err := time.ParseDuration(set)
		if err != nil {
			t.Fatal(err)
		}
		machines, idle = 100, d
	}
	w := newWorld(t, form{v1beta2}, machines)
	w.provisionedCluster("demo")
	start := time.Now()
	for n := range machines {
		w.newMachine(fmt.Sprintf("w%03d", n), machineOptions{})
	}
	for n := range machines {
		w.ready(fmt.Sprintf("w%03d", n))
	}
	took := time.Since(start)
	before := settled(w)
	machine, host, event := kindsOfWrites(before)
	timer := time.NewTimer(idle)
	defer timer.Stop()
	<-timer.C
	after, err := writesOf(w.ns)
	w.must(err)
	text := fmt.Sprintf("%d machines were ready after %v; the manager wrote %d times for machines, %d for hosts, %d "+
		"events; in %v without a change it wrote %d times\n",
		machines, took.Round(time.Millisecond), machine, host, event, idle, sum(after)-sum(before))
	t.Log(text)
	if writes := difference(after, before); len(writes) != 0 {
		t.Errorf("the provider wrote although nothing changed: %v", writes)
	}
	for n := range machines {
		if u := w.machine(fmt.Sprintf("w%03d", n)); !w.is(u, infrav1.ReadyCondition, "True") {
			t.Errorf("machine %s is not Ready any more", u.GetName())
		}
	}
	w.must(os.MkdirAll(reports, 0o755))
	w.must(os.WriteFile(reports+"/idle.txt", []byte(text), 0o644))
}
