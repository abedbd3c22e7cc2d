package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// namespaces are the namespaces that contained processes of the dock, but not this process, at one moment.
type namespaces struct {
	taken  int64             // the moment, in clock ticks since boot
	owners map[string]string // by namespace: one of its processes
}

// takeNamespaces returns the namespaces of the dock of homeDir.
func takeNamespaces() namespaces {
	n := namespaces{now(), map[string]string{}}
	for _, p := range processes() {
		for link, ns := range namespacesOf(strconv.Itoa(p.pid)) {
			ours, err := os.Readlink("/proc/self/ns/" + link)
			if err == nil && ns != ours {
				n.owners[ns] = p.name() + "@" + p.host
			}
		}
	}
	return n
}

// inhabited returns those of these namespaces that still contain a process.
func (n namespaces) inhabited() []string {
	var left []string
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		pid := filepath.Base(filepath.Dir(file))
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it exited meanwhile
		}
		start, err := startOf(stat)
		if err != nil {
			return append(left, fmt.Sprintf("process %s: %v", pid, err))
		}
		for link, ns := range namespacesOf(pid) {
			if was, ok := n.left(start, ns); ok {
				left = append(left, fmt.Sprintf("namespace %s, which was that of %s, at /proc/%s/ns/%s", ns, was, pid, link))
			}
		}
	}
	return left
}

// left reports whether a process with this start and namespace proves that one of the namespaces still exists, and of
// whom it was. The kernel reuses the numbers of namespaces at once, so a process that started later proves nothing: it
// may be in a new namespace, such as one of another dock on this machine. Pure.
func (n namespaces) left(start int64, ns string) (was string, ok bool) {
	was, ok = n.owners[ns]
	return was, ok && start <= n.taken
}

// namespacesOf returns the namespaces of a process, by the names of their links.
func namespacesOf(pid string) map[string]string {
	found := map[string]string{}
	links, _ := filepath.Glob("/proc/" + pid + "/ns/*")
	for _, link := range links {
		if ns, err := os.Readlink(link); err == nil {
			found[filepath.Base(link)] = ns
		}
	}
	return found
}

// startOf returns when a process started, in clock ticks since boot, from its stat file. Pure.
func startOf(stat []byte) (int64, error) {
	// The name, in parentheses, may contain anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("the file has too few fields: %q", stat)
	}
	return strconv.ParseInt(fields[19], 10, 64)
}

// now returns the clock ticks since boot. Linux shows a hundred of them a second on all its architectures.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err)
	}
	return t.Nano() / int64(10*time.Millisecond)
}

// TestNamespacesOfLaterProcesses: the number of a namespace is also that of a later one, so only a process that started
// before counts. The processes of the dock that runs do count.
func TestNamespacesOfLaterProcesses(t *testing.T) {
	n := namespaces{1000, map[string]string{"net:[1]": "etcd@"}}
	for name, c := range map[string]struct {
		start int64
		ns    string
		want  bool
	}{
		"started before":           {999, "net:[1]", true},
		"started at that moment":   {1000, "net:[1]", true},
		"started later":            {1001, "net:[1]", false},
		"another namespace":        {999, "net:[2]", false},
		"a number of another kind": {999, "mnt:[1]", false},
	} {
		if was, got := n.left(c.start, c.ns); got != c.want || was != n.owners[c.ns] {
			t.Errorf("%s: left is %t for %q, want %t", name, got, was, c.want)
		}
	}
	if start, err := startOf([]byte("7 (a) b) S " + strings.Repeat("0 ", 18) + "42 0")); start != 42 || err != nil {
		t.Errorf("the start is %d (%v), want 42", start, err)
	}
	if _, err := startOf([]byte("7 (a) S 1")); err == nil {
		t.Error("a short stat file has a start")
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	if start, err := startOf(stat); err != nil || start > now() || now()-start > int64(6*time.Hour/(10*time.Millisecond)) {
		t.Errorf("this process started at %d (%v), and now is %d", start, err, now())
	}
	if len(takeNamespaces().inhabited()) == 0 {
		t.Error("no process is in the namespaces of the running dock")
	}
}
