package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Minimum sizes. kubeadm requires the sizes for a control plane. The size of the disk is an estimate for the images of
// one version.
const (
	controlPlaneProcessors = 2
	controlPlaneMiB        = 1700
	workerMiB              = 900
	leastDiskGiB           = 10
)

// dataDir is where most files of a node are.
const dataDir = "/var/lib"

// label matches valid node names.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

func user(s *System, _ Role) Finding {
	if s.User != 0 {
		return warning(
			fmt.Sprintf("uid %d: some checks need root, and so does the agent", s.User),
			"sudo capstan-agent preflight",
		)
	}
	return ok("root")
}

func architecture(s *System, _ Role) Finding {
	if s.Architecture != "amd64" && s.Architecture != "arm64" {
		return missing(s.Architecture, "# use a computer with amd64 or arm64: the agent is released for these only")
	}
	return ok(s.Architecture)
}

func processors(s *System, role Role) Finding {
	found := strconv.Itoa(s.Processors)
	if s.Processors < controlPlaneProcessors && !role.Worker {
		return warning(found+"; kubeadm refuses a control plane with fewer than 2", "capstan-agent preflight --worker")
	}
	return ok(found)
}

func memory(s *System, role Role) Finding {
	var mib int64
	for line := range strings.Lines(s.text("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			mib = kib / 1024
		}
	}
	found := fmt.Sprintf("%d MiB", mib)
	switch {
	case mib == 0:
		return unknown("/proc/meminfo does not show it", "")
	case mib < workerMiB:
		return missing(fmt.Sprintf("%s; a node needs %d", found, workerMiB), "# use a computer with more memory")
	case mib < controlPlaneMiB && !role.Worker:
		return warning(
			fmt.Sprintf("%s; kubeadm refuses a control plane with fewer than %d", found, controlPlaneMiB),
			"capstan-agent preflight --worker",
		)
	}
	return ok(found)
}

func disk(s *System, _ Role) Finding {
	bytes, err := s.Free(s.path(dataDir))
	if err != nil {
		return unknown(dataDir+": "+err.Error(), "")
	}
	found := fmt.Sprintf("%d GiB free in %s", bytes>>30, dataDir)
	if bytes>>30 < leastDiskGiB {
		return warning(fmt.Sprintf("%s; images and logs need %d", found, leastDiskGiB),
			"du -xh -d 2 "+dataDir+" | sort -h | tail")
	}
	return ok(found)
}

func clock(s *System, _ Role) Finding {
	right, err := s.Synchronized()
	switch {
	case err != nil:
		return unknown("the kernel does not report it: "+err.Error(), "")
	case right:
		return ok("kept right")
	case s.program("timedatectl") && (s.exists("/lib/systemd/systemd-timesyncd") || s.program("chronyd")):
		return missing("nothing synchronizes the clock; certificates and leases need it", "timedatectl set-ntp true")
	}
	return missing("nothing synchronizes the clock; certificates and leases need it",
		s.install("systemd-timesyncd", "chrony")+" && timedatectl set-ntp true")
}

func selinux(s *System, _ Role) Finding {
	const untested = "untested with Capstan"
	switch s.text("/sys/fs/selinux/enforce") {
	case "1":
		return warning("enforcing: "+untested,
			"setenforce 0 && sed -i.bak 's/^SELINUX=.*/SELINUX=permissive/' /etc/selinux/config")
	case "0":
		return warning("permissive: "+untested, "")
	}
	return ok("not in use")
}

func systemd(s *System, _ Role) Finding {
	if s.exists("/run/systemd/system") {
		return ok("runs")
	}
	return missing("not running: the agent and the kubelet run as its services",
		"# use a distribution with systemd; for the agent alone: capstan-agent enroll --no-service")
}

func machineID(s *System, _ Role) Finding {
	if len(s.text("/etc/machine-id")) == 32 {
		return ok("present")
	}
	return missing("/etc/machine-id has no id", "systemd-machine-id-setup")
}

func hostname(s *System, _ Role) Finding {
	name := s.text("/proc/sys/kernel/hostname")
	if strings.HasPrefix(name, "localhost") || !label.MatchString(name) {
		return missing(fmt.Sprintf("%q can't be a node's name: use lower case letters, digits, - and .", name),
			"hostnamectl set-hostname NAME")
	}
	return ok(name)
}

// tools checks for the programs that kubeadm requires.
func tools(s *System, _ Role) Finding {
	packages := map[string]string{"mount": "mount", "losetup": "mount", "cp": "coreutils"}
	names := []string{"mount", "losetup", "cp"}
	var lacks, install []string
	for _, name := range names {
		if !s.program(name) {
			lacks, install = append(lacks, name), append(install, packages[name])
		}
	}
	if len(lacks) == 0 {
		return ok(strings.Join(names, ", "))
	}
	slices.Sort(install)
	return missing("no "+strings.Join(lacks, ", "),
		s.install(strings.Join(slices.Compact(install), " "), "util-linux coreutils"))
}

// leftovers checks for remains of an earlier node, because kubeadm refuses to start on top of them.
func leftovers(s *System, _ Role) Finding {
	var left []string
	for _, dir := range []string{"/etc/kubernetes/manifests", "/var/lib/etcd", "/var/lib/kubelet/pki"} {
		if len(s.entries(dir)) > 0 {
			left = append(left, dir)
		}
	}
	for _, file := range []string{"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf"} {
		if s.exists(file) {
			left = append(left, file)
		}
	}
	if len(left) == 0 {
		return ok("none")
	}
	return warning("it is or was a node: "+strings.Join(left, ", "),
		"# if no machine has the host: kubeadm reset --force && rm -rf /etc/kubernetes /var/lib/etcd /var/lib/kubelet/pki")
}
