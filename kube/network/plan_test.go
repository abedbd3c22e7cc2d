package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/kube/network/table"
)

var (
	node = netip.MustParseAddr("10.231.1.1")
	dual = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}
)

// podOf returns a pod with the n-th address of each range.
func podOf(id string, n byte, ranges []netip.Prefix, ports ...HostPort) Pod {
	p := Pod{ID: id, Space: "/pods/" + id, Ports: ports}
	for _, r := range ranges {
		a := r.Addr().AsSlice()
		a[len(a)-1] = n
		address, _ := netip.AddrFromSlice(a)
		p.Addresses = append(p.Addresses, address)
		p.Gateways = append(p.Gateways, Gateway(r))
		p.Sources = append(p.Sources, Source(r, node))
	}
	return p
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

func port(protocol table.Protocol, host string, number, pod uint16) HostPort {
	p := HostPort{Protocol: protocol, Port: number, Pod: pod}
	if host != "" {
		p.Host = netip.MustParseAddr(host)
	}
	return p
}

func TestPlans(t *testing.T) {
	four := podOf("0123456789abcdef", 7, dual[:1])
	both := podOf("fedcba9876543210", 8, dual, port(table.TCP, "", 80, 8080))
	six := podOf("six", 9, dual[1:])
	var b strings.Builder
	for _, p := range []struct {
		title string
		plan  []Op
	}{
		{"host of IPv4", PlanHost(dual[:1], node)}, {"host of both", PlanHost(dual, node)},
		{"host without an address of its own", PlanHost(dual[:1], netip.Addr{})},
		{"a range that is no more", PlanNoRange(dual[0])},
		{"cable to a pod of IPv4", PlanCable(four, 1450)}, {"pod of IPv4", PlanPod(four)},
		{"cable to a pod of both, with a port", PlanCable(both, 1450)}, {"pod of both", PlanPod(both)},
		{"cable to a pod of IPv6", PlanCable(six, 1450)}, {"pod of IPv6", PlanPod(six)},
		{"a cable that carries packets", PlanRunning(four.ID)}, {"no cable", PlanNoCable(four.ID)},
	} {
		fmt.Fprintf(&b, "# %s\n%s", p.title, Text(p.plan))
	}
	golden(t, "plans.txt", b.String())
}

func TestRules(t *testing.T) {
	web := podOf("web", 7, dual, port(table.TCP, "", 80, 8080), port(table.TCP, "127.0.0.1", 81, 8081),
		port(table.UDP, "::", 53, 53))
	dns := podOf("dns", 8, dual, port(table.UDP, "0.0.0.0", 53, 53))
	plain := podOf("plain", 9, dual)
	golden(t, "rules.txt", rules(dual, []Pod{web, plain, dns}).Text())
	if a, b := rules(dual, []Pod{web, dns}).Text(), rules(dual, []Pod{dns, web}).Text(); a != b {
		t.Errorf("the rules depend on the order of pods:\n%s\n%s", a, b)
	}
}

func TestConflicts(t *testing.T) {
	for name, c := range map[string]struct {
		have, want HostPort
		conflict   bool
	}{
		"the same port":    {port(table.TCP, "", 80, 1), port(table.TCP, "", 80, 2), true},
		"another port":     {port(table.TCP, "", 80, 1), port(table.TCP, "", 81, 1), false},
		"another protocol": {port(table.TCP, "", 80, 1), port(table.UDP, "", 80, 1), false},
		"another address": {port(table.TCP, "10.0.0.1", 80, 1),
			port(table.TCP, "127.0.0.1", 80, 1), false},
		"the same address":                   {port(table.TCP, "10.0.0.1", 80, 1), port(table.TCP, "10.0.0.1", 80, 1), true},
		"all addresses, and one":             {port(table.TCP, "", 80, 1), port(table.TCP, "127.0.0.1", 80, 1), true},
		"all of IPv4, and one":               {port(table.TCP, "0.0.0.0", 80, 1), port(table.TCP, "127.0.0.1", 80, 1), true},
		"all of IPv4, and all of IPv6":       {port(table.TCP, "0.0.0.0", 80, 1), port(table.TCP, "::", 80, 1), false},
		"all of IPv4, and one of IPv6":       {port(table.TCP, "0.0.0.0", 80, 1), port(table.TCP, "fd00::1", 80, 1), false},
		"all addresses, and all of a family": {port(table.TCP, "", 80, 1), port(table.TCP, "::", 80, 1), true},
	} {
		have, want := podOf("have", 2, dual, c.have), podOf("want", 3, dual, c.want)
		for _, err := range []error{Conflict(want, []Pod{have}), Conflict(have, []Pod{want})} {
			if (err != nil) != c.conflict || err != nil && !strings.Contains(err.Error(), "choose another hostPort") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := Conflict(have, []Pod{have}); err != nil {
			t.Errorf("%s: a pod conflicts with itself: %v", name, err)
		}
		twice := podOf("twice", 4, dual, c.have, c.want)
		if err := Conflict(twice, nil); (err != nil) != c.conflict {
			t.Errorf("%s, in one pod: %v", name, err)
		}
	}
}

func TestLinkNamesFit(t *testing.T) {
	for id, want := range map[string]string{"short": "pod-short", strings.Repeat("0123456789", 6): "pod-01234567890"} {
		if got := LinkName(id); got != want || len(got) > 15 {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestEveryPlanStopsAtAFailure(t *testing.T) {
	p := podOf("pod", 7, dual, port(table.TCP, "", 80, 8080))
	for _, plan := range [][]Op{
		PlanHost(dual, node), PlanNoRange(dual[0]), PlanCable(p, 1450), PlanPod(p), PlanRunning("pod"), PlanNoCable("pod"),
	} {
		for i := range plan {
			k := &failing{at: i}
			if err := Apply(k, plan); !errors.Is(err, errFail) || !strings.Contains(err.Error(), plan[i].String()) {
				t.Errorf("step %d: error is %v", i, err)
			}
			if k.done != i {
				t.Errorf("step %d: %d steps were done", i, k.done)
			}
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

func (f *failing) MakeVeth(string, net.HardwareAddr, string, net.HardwareAddr, int, string) error {
	return f.step()
}
func (f *failing) EnsureAddress(string, netip.Addr) error                         { return f.step() }
func (f *failing) DeleteAddress(string, netip.Addr) error                         { return f.step() }
func (f *failing) EnsureNeighbor(string, netip.Addr, net.HardwareAddr) error      { return f.step() }
func (f *failing) EnsureRoute(string, netip.Prefix, netip.Addr, netip.Addr) error { return f.step() }
func (f *failing) SetUp(string) error                                             { return f.step() }
func (f *failing) AwaitRunning(string) error                                      { return f.step() }
func (f *failing) AwaitLocal(netip.Addr) error                                    { return f.step() }
func (f *failing) DeleteLink(string) error                                        { return f.step() }
func (f *failing) SetSysctl(string, string, bool) error                           { return f.step() }
