package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// port is a port on which a program of a node listens.
type port struct {
	number       int
	program      string
	controlPlane bool
	// inside is set if only the node itself connects.
	inside bool
}

// nodePorts are the ports of a node.
var nodePorts = []port{
	{number: 2379, program: "etcd", controlPlane: true},
	{number: 2380, program: "etcd", controlPlane: true},
	{number: 6443, program: "kube-apiserver", controlPlane: true},
	{number: 10248, program: "kubelet", inside: true},
	{number: 10249, program: "kube-proxy", inside: true},
	{number: 10250, program: "kubelet"},
	{number: 10256, program: "kube-proxy"},
	{number: 10257, program: "kube-controller-manager", controlPlane: true, inside: true},
	{number: 10259, program: "kube-scheduler", controlPlane: true, inside: true},
}

// plain matches names that a shell takes literally.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Ports of Services and of vxlan.
const (
	servicePorts = "30000-32767"
	vxlanPort    = "4789"
)

func (r Role) has(p port) bool { return !p.controlPlane || !r.Worker }

// route checks for a default route. Its source address becomes the node's address.
func route(s *System, _ Role) Finding {
	for n, line := range slices.Collect(strings.Lines(s.text("/proc/net/route"))) {
		if f := strings.Fields(line); n > 0 && len(f) > 7 && f[1] == "00000000" && f[7] == "00000000" {
			return ok("default by " + f[0])
		}
	}
	for line := range strings.Lines(s.text("/proc/net/ipv6_route")) {
		f := strings.Fields(line)
		if len(f) > 9 && f[0] == strings.Repeat("0", 32) && f[1] == "00" && f[9] != "lo" {
			return ok("default by " + f[9] + ", IPv6 only")
		}
	}
	return missing("no default route: a node takes its address from it", "ip route add default via GATEWAY")
}

// ports checks whether anything already listens on a node's ports.
func ports(s *System, role Role) Finding {
	sockets := s.listeners()
	var taken, filter []string
	for _, p := range nodePorts {
		inode, used := sockets[p.number]
		if !role.has(p) || !used {
			continue
		}
		text := fmt.Sprintf("%d (%s)", p.number, p.program)
		if holder := s.holder(inode); holder != "" {
			text += " by " + holder
		}
		taken, filter = append(taken, text), append(filter, fmt.Sprintf("sport = :%d", p.number))
	}
	if len(taken) > 0 {
		return missing("in use: "+strings.Join(taken, ", "),
			"ss -Hltnp '"+strings.Join(filter, " or ")+"'   # and stop what listens")
	}
	var free []string
	for _, p := range nodePorts {
		if role.has(p) {
			free = append(free, strconv.Itoa(p.number))
		}
	}
	return ok("free: " + strings.Join(free, " "))
}

// listeners returns the TCP ports on which something listens, with the inodes of the sockets.
func (s *System) listeners() map[int]string {
	const listens = "0A"
	all := map[int]string{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for line := range strings.Lines(s.text(path)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listens {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil {
				all[int(n)] = f[9]
			}
		}
	}
	return all
}

// holder returns the process that has a socket open, as "PROGRAM PID"; empty if that can't be determined.
func (s *System) holder(inode string) string {
	for _, pid := range s.entries("/proc") {
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		fds := filepath.Join("/proc", pid, "fd")
		for _, fd := range s.entries(fds) {
			if to, err := os.Readlink(s.path(filepath.Join(fds, fd))); err == nil && to == "socket:["+inode+"]" {
				return s.text(filepath.Join("/proc", pid, "comm")) + " " + pid
			}
		}
	}
	return ""
}

// firewall checks for firewalls that may block a node's ports, or traffic between pods. It does not analyze rules: an
// active firewall is a warning, with the command that opens what a node needs.
func firewall(s *System, role Role) Finding {
	tcp := openPorts(role)
	if s.running("firewalld") {
		return warning("firewalld is on", "firewall-cmd --permanent "+words("--add-port=%s/tcp", tcp)+
			" --add-port="+vxlanPort+"/udp --add-masquerade && firewall-cmd --reload")
	}
	if slices.Contains(strings.Fields(s.text("/etc/ufw/ufw.conf")), "ENABLED=yes") {
		return warning("ufw is on", "ufw allow proto tcp to any port "+
			strings.ReplaceAll(strings.Join(tcp, ","), "-", ":")+" && ufw allow "+vxlanPort+
			"/udp && ufw default allow routed")
	}
	chains, err := s.Chains()
	if err != nil {
		return unknown("nftables can't be read: "+err.Error(), "sudo capstan-agent preflight")
	}
	var drop, mend []string
	for _, c := range chains {
		if !c.Drops {
			continue
		}
		chain := c.Family + " " + c.Table + " " + c.Name
		drop = append(drop, chain+" ("+c.Hook+")")
		switch {
		case !plain.MatchString(c.Table) || !plain.MatchString(c.Name):
			mend = append(mend, "nft list ruleset") // names may contain anything, so these are unsafe in a shell
			continue
		case c.Hook == "forward":
			mend = append(mend, "nft 'add chain "+chain+" { policy accept; }'")
			continue
		}
		mend = append(mend, "nft insert rule "+chain+" tcp dport '{ "+strings.Join(tcp, ", ")+" }' accept",
			"nft insert rule "+chain+" udp dport "+vxlanPort+" accept")
	}
	if len(drop) > 0 {
		return warning("drops packets that no rule accepts: "+strings.Join(drop, ", "),
			strings.Join(mend, " && ")+"   # and add it to the rules that are loaded at boot")
	}
	if strings.Contains(s.text("/proc/net/ip_tables_names"), "filter") {
		return warning("rules of iptables-legacy, which are not checked",
			"iptables-legacy -S   # INPUT must accept "+strings.Join(tcp, " ")+", FORWARD the pods")
	}
	return ok("none that drops packets")
}

// openPorts returns the TCP ports that others must be able to reach.
func openPorts(role Role) []string {
	var all []string
	for _, p := range nodePorts {
		if role.has(p) && !p.inside {
			all = append(all, strconv.Itoa(p.number))
		}
	}
	return append(all, servicePorts)
}

// words formats each value and joins the results with spaces.
func words(format string, values []string) string {
	all := make([]string, 0, len(values))
	for _, v := range values {
		all = append(all, fmt.Sprintf(format, v))
	}
	return strings.Join(all, " ")
}

// running reports whether a process with this name runs.
func (s *System) running(name string) bool {
	return slices.ContainsFunc(s.entries("/proc"), func(pid string) bool {
		_, err := strconv.Atoi(pid)
		return err == nil && s.text(filepath.Join("/proc", pid, "comm")) == name
	})
}
