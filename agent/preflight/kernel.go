package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// oldestKernel is the oldest kernel that kubeadm accepts.
var oldestKernel = [2]int{5, 4}

// controllers are the cgroup controllers that the kubelet requires.
var controllers = []string{"cpu", "cpuset", "memory", "pids"}

// wantedModules are the kernel modules that a node needs, and why it needs them. Not every cluster needs the optional
// ones.
var wantedModules = []struct {
	name, why string
	optional  bool
}{
	{"overlay", "layers of images", false},
	{"br_netfilter", "Services between pods of one node", false},
	{"nf_conntrack", "Services", false},
	{"nf_tables", "Services", false},
	{"vxlan", "pods on nodes in other networks", true},
}

// wantedSysctls are the kernel settings that a node needs.
var wantedSysctls = []struct{ name, value string }{
	{"net.ipv4.ip_forward", "1"},
	{"net.bridge.bridge-nf-call-iptables", "1"},
	{"net.bridge.bridge-nf-call-ip6tables", "1"},
}

func kernel(s *System, _ Role) Finding {
	var major, minor int
	if n, _ := fmt.Sscanf(s.Release, "%d.%d", &major, &minor); n != 2 {
		return unknown(fmt.Sprintf("release %q", s.Release), "")
	}
	if major < oldestKernel[0] || major == oldestKernel[0] && minor < oldestKernel[1] {
		return missing(
			fmt.Sprintf("%s; kubeadm needs %d.%d or later", s.Release, oldestKernel[0], oldestKernel[1]),
			"# install a later kernel, or a later release of the distribution, and reboot",
		)
	}
	return ok(s.Release)
}

func cgroups(s *System, _ Role) Finding {
	const file = "/sys/fs/cgroup/cgroup.controllers"
	if !s.exists(file) {
		return missing(
			"version 1; the kubelet needs version 2",
			s.kernelArgument("systemd.unified_cgroup_hierarchy=1"),
		)
	}
	has := strings.Fields(s.text(file))
	var lacks []string
	for _, c := range controllers {
		if !slices.Contains(has, c) {
			lacks = append(lacks, c)
		}
	}
	switch {
	case slices.Equal(lacks, []string{"memory"}):
		return missing("version 2 without controller memory", s.kernelArgument("cgroup_enable=memory"))
	case len(lacks) > 0:
		return missing(
			"version 2 without controllers "+strings.Join(lacks, ", "),
			"# use a kernel with these controllers, and a cgroup root that delegates them",
		)
	}
	return ok("version 2 with " + strings.Join(has, " "))
}

// modules checks the kernel's modules. Programs load most modules when they need them, so an unloaded one is only a
// warning. But nothing loads br_netfilter, so it counts as missing if it is not loaded.
func modules(s *System, _ Role) Finding {
	var names, load, absent []string
	verdict := Warning
	for _, m := range wantedModules {
		names = append(names, m.name)
		switch {
		case s.loaded(m.name):
		case s.available(m.name):
			load = append(load, m.name)
		default:
			absent = append(absent, m.name+" ("+m.why+")")
			if !m.optional {
				verdict = Missing
			}
		}
	}
	list := strings.Join(names, " ")
	mend := `printf '%s\n' ` + list + ` > /etc/modules-load.d/capstan.conf && modprobe -a ` + list
	switch {
	case len(absent) > 0 && !s.exists("/lib/modules/"+s.Release):
		return unknown("the kernel has no loadable modules, and does not show "+strings.Join(absent, ", "), "")
	case len(absent) > 0:
		kernels := "linux-image-" + s.Architecture
		if s.like("ubuntu") {
			kernels = "linux-generic"
		}
		return Finding{
			Verdict: verdict, Found: "the kernel has no " + strings.Join(absent, ", "),
			Mend: s.install(kernels, "kernel-modules") + " && reboot",
		}
	case slices.Contains(load, "br_netfilter"):
		return missing("not loaded: "+strings.Join(load, ", "), mend)
	case len(load) > 0:
		return warning("not loaded: "+strings.Join(load, ", "), mend)
	}
	return ok(strings.Join(names, ", "))
}

// loaded reports whether the kernel has a module loaded.
func (s *System) loaded(name string) bool {
	if s.exists("/sys/module/"+name) || s.listed("/lib/modules/"+s.Release+"/modules.builtin", name) {
		return true
	}
	for line := range strings.Lines(s.text("/proc/filesystems")) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == name {
			return true
		}
	}
	// Some built-in modules show only through their effects.
	switch name {
	case "br_netfilter":
		return s.exists("/proc/sys/net/bridge")
	case "nf_tables":
		_, err := s.Chains()
		return err == nil
	default:
		return false
	}
}

// available reports whether the kernel can load a module.
func (s *System) available(name string) bool {
	return s.listed("/lib/modules/"+s.Release+"/modules.dep", name)
}

// listed reports whether a file of depmod lists a module.
func (s *System) listed(path, name string) bool {
	for line := range strings.Lines(s.text(path)) {
		file, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		base := file[strings.LastIndexByte(file, '/')+1:]
		base, _, _ = strings.Cut(base, ".ko")
		if strings.ReplaceAll(base, "-", "_") == name {
			return true
		}
	}
	return false
}

func sysctls(s *System, _ Role) Finding {
	var wrong, all []string
	for _, w := range wantedSysctls {
		all = append(all, w.name+"="+w.value)
		got := s.text("/proc/sys/" + strings.ReplaceAll(w.name, ".", "/"))
		if got == "" {
			got = "absent"
		}
		if got != w.value {
			wrong = append(wrong, w.name+" is "+got)
		}
	}
	if len(wrong) == 0 {
		return ok(strings.Join(all, ", "))
	}
	return missing(strings.Join(wrong, ", "), `modprobe br_netfilter; printf '%s\n' `+strings.Join(all, " ")+
		` > /etc/sysctl.d/90-capstan.conf && sysctl --system`)
}

// swap checks for swap space, which the kubelet refuses, and for settings that enable it at the next boot.
func swap(s *System, _ Role) Finding {
	const forget = `sed -i.bak -E '/^[^#].*[[:space:]]swap[[:space:]]/s/^/#/' /etc/fstab`
	var used, zram []string
	for n, line := range slices.Collect(strings.Lines(s.text("/proc/swaps"))) {
		fields := strings.Fields(line)
		if n == 0 || len(fields) < 3 {
			continue
		}
		size := fields[0]
		if kib, err := strconv.ParseInt(fields[2], 10, 64); err == nil {
			size += fmt.Sprintf(" (%d MiB)", kib/1024)
		}
		used = append(used, size)
		if name, is := strings.CutPrefix(fields[0], "/dev/zram"); is {
			zram = append(zram, " dev-zram"+name+".swap")
		}
	}
	if len(used) > 0 {
		mend := "swapoff -a && " + forget
		if len(zram) > 0 {
			mend += " && systemctl mask" + strings.Join(zram, "")
		}
		return missing("in use: "+strings.Join(used, ", "), mend)
	}
	for line := range strings.Lines(s.text("/etc/fstab")) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "swap" && !strings.HasPrefix(f[0], "#") {
			return warning("off now, but /etc/fstab has "+f[0]+" for the next boot", forget)
		}
	}
	return ok("off")
}
