package facts

import (
	"bufio"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/clean"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// localVirtualization is the virtualization that a local host reports.
const localVirtualization = "namespace"

// hypervisors map names in firmware to systemd's names.
var hypervisors = []struct{ firmware, name string }{
	{"KVM", "kvm"}, {"OpenStack", "kvm"}, {"KubeVirt", "kvm"}, {"Amazon EC2", "amazon"}, {"QEMU", "qemu"},
	{"VMware", "vmware"}, {"VMW", "vmware"}, {"innotek GmbH", "oracle"}, {"VirtualBox", "oracle"}, {"Xen", "xen"},
	{"Bochs", "bochs"}, {"Parallels", "parallels"}, {"BHYVE", "bhyve"}, {"Hyper-V", "microsoft"},
	{"Microsoft Corporation Virtual Machine", "microsoft"}, {"Google Compute Engine", "google"},
	{"Apple Virtualization", "apple"},
}

// hardware adds the hardware of the computer with this root directory to a report. It adds no number that identifies
// the computer.
func hardware(root string, local bool, found *v1beta2.AgentReport) {
	found.ProcessorModel = report.Name(processorModel(root))
	found.Addresses = addresses()
	if local {
		found.Virtualization = localVirtualization // everything else describes the computer around it
		return
	}
	found.Model = report.Name(model(root))
	found.Virtualization = virtualization(root)
	found.Disks = disks(root)
}

// line returns the first line of a file; empty if it can't be read.
func line(path ...string) string {
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimRight(string(data), "\x00"), "\n")
	return strings.TrimSpace(first)
}

// processor returns the first value in cpuinfo whose key is one of keys.
func processor(root string, keys ...string) string {
	f, err := os.Open(filepath.Join(root, "/proc/cpuinfo"))
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if slices.Contains(keys, strings.TrimSpace(key)) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func processorModel(root string) string { return processor(root, "model name", "Model", "cpu model") }

// model returns the maker and model of the computer, according to its firmware; computers without DMI have a device
// tree.
func model(root string) string {
	const dmi = "/sys/class/dmi/id"
	if name := line(root, dmi, "product_name"); name != "" {
		return strings.TrimSpace(line(root, dmi, "sys_vendor") + " " + name)
	}
	return line(root, "/proc/device-tree/model")
}

// virtualization returns systemd's name for the hypervisor that the computer runs on; empty if nothing indicates
// virtualization.
func virtualization(root string) string {
	if name := plain(line(root, "/run/systemd/container")); name != "" {
		return name
	}
	firmware := model(root) + " " + line(root, "/sys/class/dmi/id/bios_vendor")
	for _, h := range hypervisors {
		if strings.Contains(firmware, h.firmware) {
			return h.name
		}
	}
	switch compatible := line(root, "/proc/device-tree/hypervisor/compatible"); {
	case strings.HasPrefix(compatible, "linux,kvm"):
		return "kvm"
	case strings.HasPrefix(compatible, "xen"), line(root, "/sys/hypervisor/type") == "xen":
		return "xen"
	case slices.Contains(strings.Fields(processor(root, "flags")), "hypervisor"):
		return "vm-other"
	}
	return "none"
}

// plain returns name if a report may contain it, else "".
func plain(name string) string {
	if len(name) > report.VirtualizationLimit || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return ""
	}
	return name
}

// disks returns the largest disks of the computer, by name. It omits removable media and block devices without
// hardware.
func disks(root string) []v1beta2.HostDisk {
	const dir = "/sys/block"
	entries, err := os.ReadDir(filepath.Join(root, dir))
	if err != nil {
		return nil
	}
	var all []v1beta2.HostDisk
	for _, e := range entries {
		name := e.Name()
		if _, err := os.Stat(filepath.Join(root, dir, name, "device")); err != nil || len(name) > report.DiskNameLimit ||
			line(root, dir, name, "removable") == "1" {
			continue
		}
		const sectorsOfGiB = 1 << 30 / 512
		sectors, _ := strconv.ParseInt(line(root, dir, name, "size"), 10, 64)
		if size := sectors / sectorsOfGiB; size > 0 {
			rotational := line(root, dir, name, "queue/rotational") == "1"
			all = append(all, v1beta2.HostDisk{Name: name, SizeGiB: size, Rotational: rotational})
		}
	}
	slices.SortFunc(all, func(a, b v1beta2.HostDisk) int {
		return cmp.Or(cmp.Compare(b.SizeGiB, a.SizeGiB), cmp.Compare(a.Name, b.Name))
	})
	all = all[:min(len(all), report.DisksLimit)]
	slices.SortFunc(all, func(a, b v1beta2.HostDisk) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// addresses returns the sorted addresses of the computer's interfaces, except those that network plug-ins create and
// those that change by themselves.
func addresses() []string {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil
	}
	var all []string
	for _, a := range list {
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if err != nil || clean.OfPlugin(link.Attrs().Name) || !a.IP.IsGlobalUnicast() ||
			a.Flags&(unix.IFA_F_TEMPORARY|unix.IFA_F_DEPRECATED|unix.IFA_F_TENTATIVE) != 0 {
			continue
		}
		all = append(all, a.IP.String())
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), report.AddressesLimit)]
}
