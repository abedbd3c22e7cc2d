//go:build linux

package network

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/dock/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func addrOf(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestNextAddress(t *testing.T) {
	r := Range{addrOf("10.0.1.253"), addrOf("10.0.2.3")}
	for name, c := range map[string]struct {
		last string
		used []string
		want string
	}{
		"without a previous address, the first":      {want: "10.0.1.253"},
		"the address after the previous one":         {last: "10.0.2.1", want: "10.0.2.2"},
		"the last byte is never 0 or 255":            {last: "10.0.1.254", want: "10.0.2.1"},
		"used addresses are skipped":                 {last: "10.0.2.1", used: []string{"10.0.2.2"}, want: "10.0.2.3"},
		"after the last address, the first free one": {last: "10.0.2.3", used: []string{"10.0.1.253"}, want: "10.0.1.254"},
		"an address of another range is ignored":     {last: "10.9.9.9", want: "10.0.1.253"},
		"a freed address is used again if no other is free": {
			last: "10.0.2.3", used: []string{"10.0.1.253", "10.0.1.254", "10.0.2.1", "10.0.2.3"}, want: "10.0.2.2",
		},
		"none is left": {used: []string{"10.0.1.253", "10.0.1.254", "10.0.2.1", "10.0.2.2", "10.0.2.3"}, want: "invalid IP"},
	} {
		used := map[netip.Addr]bool{}
		for _, u := range c.used {
			used[addrOf(u)] = true
		}
		var last netip.Addr
		if c.last != "" {
			last = addrOf(c.last)
		}
		got, err := r.Next(last, used)
		if got.String() != c.want || (err != nil) != (c.want == "invalid IP") ||
			(err != nil && !errors.Is(err, ErrExhausted)) {
			t.Errorf("%s: got %v, %v; want %s", name, got, err, c.want)
		}
	}
}

func TestLinkNamesFitAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for a := Hosts.First; Hosts.Contains(a); a = a.Next() {
		name := LinkName(a)
		if len(name) > 15 || seen[name] {
			t.Fatalf("%s for %v is too long or not unique", name, a)
		}
		seen[name] = true
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func TestPlans(t *testing.T) {
	host, lb := addrOf("10.231.1.7"), addrOf("10.231.16.1")
	var b strings.Builder
	for _, p := range []struct {
		title string
		plan  []Op
	}{
		{"dock", PlanDock()}, {"cable to host 10.231.1.7, process 42", PlanLink(host, 42)},
		{"host 10.231.1.7", PlanHost(host)},
		{"balancer 10.231.16.1", PlanBalancer(lb)}, {"no balancer", PlanNoBalancer(lb)}, {"no cable", PlanUnlink(host)},
	} {
		fmt.Fprintf(&b, "# %s\n%s", p.title, Text(p.plan))
	}
	golden(t, "plans.txt", b.String())
}

func TestEveryPlanStopsAtAFailureAndCanBeRepeated(t *testing.T) {
	all := append(PlanDock(), PlanHost(addrOf("10.231.1.7"))...)
	for i := range all {
		k := &failing{at: i}
		if err := Apply(k, all); !errors.Is(err, errFail) || !strings.Contains(err.Error(), all[i].String()) {
			t.Errorf("step %d: error is %v", i, err)
		}
		if k.done != i {
			t.Errorf("step %d: %d steps were done", i, k.done)
		}
	}
}

// failing is a Kernel that fails one call; at is the number of that call.
type failing struct{ at, done int }

var errFail = errors.New("the kernel says no")

func (f *failing) step() error {
	if f.done == f.at {
		return errFail
	}
	f.done++
	return nil
}
func (f *failing) EnsureBridge(string, net.HardwareAddr) error                 { return f.step() }
func (f *failing) MakeVeth(_, _ string, _ net.HardwareAddr, _ int) error       { return f.step() }
func (f *failing) EnsureRoute(_ string, _ netip.Prefix, _, _ netip.Addr) error { return f.step() }
func (f *failing) EnsureAddress(string, netip.Prefix) error                    { return f.step() }
func (f *failing) DeleteAddress(string, netip.Prefix) error                    { return f.step() }
func (f *failing) SetUp(string) error                                          { return f.step() }
func (f *failing) EnsureDefaultRoute(string, netip.Addr) error                 { return f.step() }
func (f *failing) DeleteLink(string) error                                     { return f.step() }
func (f *failing) SetSysctl(string, string, bool) error                        { return f.step() }

func open(t *testing.T) *Netlink {
	t.Helper()
	k, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func apply(t *testing.T, k Kernel, plan []Op) {
	t.Helper()
	if err := Apply(k, plan); err != nil {
		t.Fatal(err)
	}
}

func dump(t *testing.T, k *Netlink) string {
	t.Helper()
	text, err := k.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// neighbour starts a process in its own network namespace, as a substitute for a host.
func neighbour(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// TestKernel compares the real kernel's state, as text, with the expected one after each step in the life of a dock.
func TestKernel(t *testing.T) {
	k := open(t)
	host, lb := addrOf("10.231.1.7"), addrOf("10.231.16.1")
	var b strings.Builder
	show := func(title string) { fmt.Fprintf(&b, "# %s\n%s", title, dump(t, k)) }
	for range 2 { // each plan can be applied again
		apply(t, k, PlanDock())
	}
	show("dock")
	child := neighbour(t)
	apply(t, k, PlanLink(host, child.Process.Pid))
	show("with a host")
	for range 2 {
		apply(t, k, PlanBalancer(lb))
	}
	show("and a balancer")
	for range 2 {
		apply(t, k, PlanNoBalancer(lb))
	}
	child.Process.Kill()
	child.Wait()
	for range 2 {
		apply(t, k, PlanUnlink(host))
	}
	show("without both")
	golden(t, "kernel.txt", b.String())
}

func TestAHostsSideOfTheCable(t *testing.T) {
	k := open(t)
	apply(t, k, PlanDock())
	// This test process can't enter the namespace of its child. So the child runs this test binary, too, with another
	// task.
	host := addrOf("10.231.1.9")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsHost$", "-test.v")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), testns.Child, "AS_HOST="+host.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	apply(t, k, PlanLink(host, cmd.Process.Pid))
	in.Close() // tells it to continue
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	apply(t, k, PlanUnlink(host))
	_, text, _ := strings.Cut(out.String(), "<<<\n")
	text, _, _ = strings.Cut(text, ">>>")
	golden(t, "host.txt", text)
}

// TestAsHost is the child of TestAHostsSideOfTheCable.
func TestAsHost(t *testing.T) {
	if os.Getenv("AS_HOST") == "" {
		t.Skip("this is the child of TestAHostsSideOfTheCable")
	}
	os.Stdin.Read(make([]byte, 1))
	k := open(t)
	for range 2 {
		apply(t, k, PlanHost(addrOf(os.Getenv("AS_HOST"))))
	}
	forward, _ := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	fmt.Printf("<<<\n%sip_forward %s>>>\n", dump(t, k), forward)
}

// TestACableIsReplaced checks that a new cable does not wait for a dead namespace, which frees its end of the old cable
// late.
func TestACableIsReplaced(t *testing.T) {
	k := open(t)
	apply(t, k, PlanDock())
	host := addrOf("10.231.1.8")
	for range 20 {
		child := neighbour(t)
		began := time.Now()
		apply(t, k, PlanLink(host, child.Process.Pid))
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("a cable took %v", took)
		}
		child.Process.Kill()
		child.Wait()
	}
	apply(t, k, PlanUnlink(host))
	if text := dump(t, k); strings.Contains(text, LinkName(host)) {
		t.Errorf("the link is left:\n%s", text)
	}
}
