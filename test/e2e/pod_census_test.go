package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/cgroup"
)

// census counts what pods and docks create in the kernel, by kind.
type census map[string]int

// takeCensus counts processes, mounts, links, addresses, routes, rules and control groups of the dock and these hosts.
// It adds up all hosts, because pods may move from one host to another.
func takeCensus(hosts []string) (census, error) {
	found := census{}
	seen := map[string]bool{}
	for _, p := range processes() {
		where := "dock"
		if p.host != "" {
			where = "hosts"
		}
		found["process "+p.name()+" of "+where]++
		switch {
		case p.name() == "dock run", p.name() == "dock inside":
			where = p.name()
		case p.name() == "dock init" && slices.Contains(hosts, p.host):
			where = "hosts"
			seen[p.host] = true
		default:
			continue
		}
		if err := found.addMounts(where, p.pid); err != nil {
			return nil, err
		}
		if p.name() == "dock run" {
			continue // the machine's network
		}
		if err := found.addNetwork(where, p.pid); err != nil {
			return nil, err
		}
		if where == "hosts" {
			if err := found.addGroups(p.pid); err != nil {
				return nil, err
			}
		}
	}
	if len(seen) != len(hosts) {
		return nil, fmt.Errorf("hosts %v run, want %v", seen, hosts)
	}
	return found, nil
}

func (c census) addMounts(where string, pid int) error {
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		_, rest, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(rest, " ")
		c["mount "+kind+" of "+where]++
	}
	return nil
}

func (c census) addNetwork(where string, pid int) error {
	lines, err := networkOf(pid)
	if err != nil {
		return err
	}
	for line := range strings.Lines(lines) {
		c[strings.TrimSpace(line)+" of "+where]++
	}
	return nil
}

// addGroups counts the control groups of a host. Every host has the same groups above those of its pods, even if it has
// no pods. So the sum over all hosts stays the same when a pod moves to another host.
func (c census) addGroups(pid int) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	place, err := cgroup.Find(string(mounts), string(own))
	if err != nil || !strings.Contains(string(own), "/capstan-") {
		return nil // hosts have no limits here
	}
	for controller, dir := range place.Own {
		all := filepath.Join(dir, "..")
		err := filepath.WalkDir(all, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				c["group of "+controller]++
			}
			return nil // groups come and go meanwhile
		})
		if err != nil {
			return err
		}
		// A killed dock leaves groups next to the host's group.
		beside, err := os.ReadDir(filepath.Join(dir, "../../.."))
		if err != nil {
			return err
		}
		for _, d := range beside {
			if d.IsDir() {
				c["group of "+controller+" of hosts"]++
			}
		}
	}
	return nil
}

// differs describes how two counts differ, or returns "".
func (c census) differs(before census) string {
	var all []string
	for kind := range c {
		if _, is := before[kind]; !is {
			all = append(all, fmt.Sprintf("%s: %d, was 0", kind, c[kind]))
		}
	}
	for kind, n := range before {
		if c[kind] != n {
			all = append(all, fmt.Sprintf("%s: %d, was %d", kind, c[kind], n))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// networkVariable makes the test binary print the content of its network namespace.
const networkVariable = "CAPSTAN_TEST_NETWORK"

// networkOf lists the content of a process's network namespace by kind, without names and addresses, because those of
// pods change.
func networkOf(pid int) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	args := []string{"-t", strconv.Itoa(pid), "--net", self}
	if os.Geteuid() != 0 {
		args = append([]string{"--user", "--preserve-credentials"}, args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = []string{networkVariable + "=1", "PATH=" + os.Getenv("PATH")}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("listing the network of process %d: %w: %s", pid, err, errOut.String())
	}
	return string(out), nil
}

// printNetwork prints the links, addresses, routes, rules and tables of packet rules of this network namespace.
func printNetwork(string) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		fmt.Println("link", l.Type())
		neighbors, err := netlink.NeighList(l.Attrs().Index, unix.AF_UNSPEC)
		if err != nil {
			return err
		}
		for _, n := range neighbors {
			if n.State == unix.NUD_PERMANENT {
				fmt.Println("neighbor")
			}
		}
	}
	addresses, err := netlink.AddrList(nil, unix.AF_UNSPEC)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if !a.IP.IsLinkLocalUnicast() { // the kernel adds those later
			fmt.Println("address")
		}
	}
	routes, err := netlink.RouteListFiltered(unix.AF_UNSPEC, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Table != unix.RT_TABLE_LOCAL && r.Protocol != unix.RTPROT_KERNEL {
			fmt.Println("route of table", r.Table)
		}
	}
	rules, err := netlink.RuleList(unix.AF_UNSPEC)
	if err != nil {
		return err
	}
	for range rules {
		fmt.Println("rule")
	}
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	tables, err := conn.ListTables()
	for _, t := range tables {
		fmt.Println("packet rules", t.Name)
	}
	return err
}
