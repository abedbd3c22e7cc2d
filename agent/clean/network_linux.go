package clean

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/internal/podroute"
)

// interfacePrefixes are the prefixes of the interface names that network plug-ins use. The last two are for interfaces
// that Capstan's bundle creates without a plug-in: the links to pods, and the tunnel to the other Nodes.
var interfacePrefixes = []string{
	"cni", "flannel", "cali", "vxlan.calico", "vxlan-v6.calico", "cilium", "lxc", "kube-ipvs", "kube-bridge",
	"nodelocaldns", "weave", "antrea", "ovn-k8s",
	"vethwe", "dummy-kube", "capnet", "pod-", "podnet0",
}

// chainPrefixes are the prefixes of the packet filter chains of Kubernetes and of network plug-ins.
var chainPrefixes = []string{"KUBE-", "CNI-", "cali-", "CILIUM_", "FLANNEL-", "WEAVE-", "ANTREA-"}

// ports are the ports on which the programs of a node listen.
var ports = map[int]string{
	6443: "kube-apiserver", 2379: "etcd", 2380: "etcd", 2381: "etcd", 10250: "kubelet", 10248: "kubelet", 10255: "kubelet",
	10257: "kube-controller-manager",
	10259: "kube-scheduler", 10249: "kube-proxy", 10256: "kube-proxy",
}

// network removes interfaces, routes and packet filter rules.
func (c *Cleaner) network(ctx context.Context) error {
	var errs []error
	names, err := machineInterfaces()
	errs = append(errs, err)
	for _, name := range names {
		link, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkDel(link)
		}
		var gone netlink.LinkNotFoundError
		if err != nil && !errors.As(err, &gone) {
			errs = append(errs, err)
		}
	}
	for _, program := range []string{"iptables", "ip6tables"} {
		errs = append(errs, c.restoreTables(ctx, program))
	}
	errs = append(errs, c.deleteTables(), podroute.Delete())
	return errors.Join(errs...)
}

// machineInterfaces lists the interfaces that network plug-ins created.
func machineInterfaces() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range all {
		if OfPlugin(i.Name) {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

// OfPlugin reports whether an interface has a name that network plug-ins use.
func OfPlugin(name string) bool {
	return slices.ContainsFunc(interfacePrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// restoreTables reloads the packet filter without the rules and chains of Kubernetes.
func (c *Cleaner) restoreTables(ctx context.Context, program string) error {
	rules, ok := c.output(ctx, program+"-save")
	if !ok {
		return nil
	}
	kept := withoutChains(rules)
	if kept == rules {
		return nil
	}
	c.Log.Printf("+ %s-restore", program)
	return command.Command{Args: []string{program + "-restore"}, Stdin: kept, Output: c.Log}.Run(ctx)
}

// withoutChains returns rules in the format of iptables-save, without the rules of Kubernetes.
func withoutChains(rules string) string {
	var b strings.Builder
	for line := range strings.Lines(rules) {
		if !ofMachine(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// ofMachine reports whether a line names a chain of Kubernetes.
func ofMachine(line string) bool {
	for _, word := range strings.Fields(line) {
		if slices.ContainsFunc(chainPrefixes, func(p string) bool {
			return strings.HasPrefix(strings.TrimPrefix(word, ":"), p)
		}) {
			return true
		}
	}
	return false
}

// output returns what a command prints; false if the host does not have the command or it fails.
func (c *Cleaner) output(ctx context.Context, args ...string) (string, bool) {
	if _, err := command.Find(args[0]); err != nil {
		return "", false
	}
	var out strings.Builder
	err := command.Command{Args: args, Output: &out}.Run(ctx)
	return out.String(), err == nil
}

// listening returns those of a node's ports on which something listens.
func listening() ([]int, error) {
	var found []int
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if port, ok := listeningPort(lines.Text()); ok && ports[port] != "" && !slices.Contains(found, port) {
				found = append(found, port)
			}
		}
		err = lines.Err()
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	return found, nil
}

// listeningPort returns the port of a socket in a line of /proc/net/tcp; false if the socket does not listen.
func listeningPort(line string) (int, bool) {
	const listen = "0A"
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[3] != listen {
		return 0, false
	}
	address, port, found := strings.Cut(fields[1], ":")
	if _, err := hex.DecodeString(address); err != nil || !found {
		return 0, false
	}
	n, err := strconv.ParseUint(port, 16, 16)
	return int(n), err == nil
}
