package baseline

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/regular"
)

// state is what runs on a host and how the host is connected. In each map, a key describes one thing, such as a
// process, and the number is how often it occurs.
type state struct {
	Processes, Sockets, Mounts, Links, Addresses, Routes, Rules, Legacy, Modules map[string]int
	// Sysctls are kernel settings, by their path below /proc/sys.
	Sysctls map[string]string
	// Packages is the digest of the package database.
	Packages string
}

// look returns the current state of the host.
func (h Host) look() (s state, err error) {
	for _, part := range []struct {
		to   *map[string]int
		look func() (map[string]int, error)
	}{
		{&s.Processes, processes},
		{&s.Sockets, sockets},
		{&s.Mounts, h.mounts},
		{&s.Links, links},
		{&s.Addresses, addresses},
		{&s.Routes, routes},
		{&s.Rules, rules},
		{&s.Legacy, legacyRules},
		{&s.Modules, h.modules},
	} {
		if *part.to, err = part.look(); err != nil {
			return s, err
		}
	}
	if s.Sysctls, err = h.sysctls(); err != nil {
		return s, err
	}
	s.Packages, err = h.packages()
	return s, err
}

// since lists what is in s but not in the earlier state, which is the parameter before. It omits what has disappeared,
// because that can't harm the next user.
func (s state) since(before state) []string {
	var found []string
	for _, kind := range []struct {
		name        string
		before, now map[string]int
	}{
		{"process", before.Processes, s.Processes},
		{"socket", before.Sockets, s.Sockets},
		{"mount", before.Mounts, s.Mounts},
		{"interface", before.Links, s.Links},
		{"address", before.Addresses, s.Addresses},
		{"route", before.Routes, s.Routes},
		{"nftables", before.Rules, s.Rules},
		{"packet filter", before.Legacy, s.Legacy},
		{"kernel module", before.Modules, s.Modules},
	} {
		var names []string
		for name, n := range kind.now {
			if n > kind.before[name] {
				names = append(names, kind.name+" "+name)
			}
		}
		sort.Strings(names)
		found = append(found, names...)
	}
	return append(found, s.settings(before)...)
}

// Passing reports whether all differences can disappear by themselves, because each is a process or a socket: a socket
// closes when its process ends.
func Passing(found []string) bool {
	return !slices.ContainsFunc(found, func(f string) bool {
		return !strings.HasPrefix(f, "process ") && !strings.HasPrefix(f, "socket ")
	})
}

// processes returns the program, user and arguments of each process but this one. If /proc belongs to an outer PID
// namespace, only processes of this process's own namespace count.
func processes() (map[string]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return nil, err
	}
	outer := self != strconv.Itoa(os.Getpid())
	all := map[string]int{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil || e.Name() == self {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		if ns, err := os.Readlink(dir + "/ns/pid"); err != nil || outer && ns != own {
			continue
		}
		if name, ok := process(dir); ok {
			all[name]++
		}
	}
	return all, nil
}

// process describes the process of a directory in /proc. It returns false if the process is a kernel thread, a zombie,
// or gone.
func process(dir string) (string, bool) {
	exe, err := os.Readlink(dir + "/exe")
	if err != nil {
		return "", false
	}
	args, err := regular.Read(dir+"/cmdline", 1<<20)
	if err != nil {
		return "", false
	}
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return "", false
	}
	text := strings.Join(strings.Split(strings.TrimRight(string(args), "\x00"), "\x00"), " ")
	// The program still runs although an update of its package replaced the file.
	exe = strings.TrimSuffix(exe, " (deleted)")
	return fmt.Sprintf("%s of uid %d (%s)", exe, stat.Uid, strconv.QuoteToASCII(text[:min(len(text), 200)])), true
}

// sockets returns the sockets on which the host listens: TCP ports, and UDP ports below those for clients.
func sockets() (map[string]int, error) {
	low := clientPorts()
	all := map[string]int{}
	for _, proto := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		err := eachLine("/proc/self/net/"+proto, func(line string) {
			f := strings.Fields(line)
			if len(f) < 8 || f[0] == "sl" {
				return
			}
			_, hex, _ := strings.Cut(f[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			listens := strings.HasPrefix(proto, "tcp") && f[3] == "0A" || strings.HasPrefix(proto, "raw") ||
				strings.HasPrefix(proto, "udp") && strings.Trim(strings.Replace(f[2], ":", "", 1), "0") == "" &&
					int(port) < low
			if err == nil && listens {
				all[fmt.Sprintf("%s %d of uid %s", proto, port, f[7])]++
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the kernel may lack IPv6
			return nil, err
		}
	}
	return all, nil
}

// clientPorts returns the first port that the kernel picks for clients.
func clientPorts() int {
	data, err := regular.Read("/proc/sys/net/ipv4/ip_local_port_range", 1<<10)
	if fields := strings.Fields(string(data)); err == nil && len(fields) == 2 {
		if low, err := strconv.Atoi(fields[0]); err == nil {
			return low
		}
	}
	return 32768
}

// mounts returns the mounts, except the agent's own.
func (h Host) mounts() (map[string]int, error) {
	list, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return slices.ContainsFunc(h.Own, func(o string) bool { return under(m.Mountpoint, []string{o}) }), false
	})
	all := map[string]int{}
	for _, m := range list {
		all[fmt.Sprintf("%s (%s of %s)", m.Mountpoint, m.FSType, m.Source)]++
	}
	return all, err
}

// modules returns the loaded kernel modules that don't come from a file below /lib/modules. Those files are compared
// like all others.
func (h Host) modules() (map[string]int, error) {
	all := map[string]int{}
	err := eachLine("/proc/modules", func(line string) {
		if name, _, _ := strings.Cut(line, " "); name != "" {
			all[name]++
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil // the kernel does not support modules
	}
	if err != nil {
		return nil, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, err
	}
	dir := filepath.Join(h.Root, "lib/modules", unix.ByteSliceToString(name.Release[:]))
	for _, list := range []string{"modules.dep", "modules.builtin"} {
		f, err := os.Open(filepath.Join(dir, list))
		if err != nil {
			continue // the host shares the kernel of another host
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(make([]byte, 0, 1<<16), longestLine)
		for lines.Scan() {
			file, _, _ := strings.Cut(lines.Text(), ":")
			base, _, _ := strings.Cut(filepath.Base(file), ".ko")
			delete(all, strings.ReplaceAll(base, "-", "_"))
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
