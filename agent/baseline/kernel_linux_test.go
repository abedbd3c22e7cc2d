package baseline

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/internal/testhost"
)

// TestSysctlsArePutBack: settings changed by a machine are reported and restored.
func TestSysctlsArePutBack(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		remount(t)
		h := whole()
		h.Shared = true // the kernel belongs to the machine; only network settings are the host's own
		take(t, h)
		before := map[string]string{}
		for name, value := range map[string]string{
			"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/rp_filter": "2", "net/ipv4/conf/eth0/route_localnet": "1",
		} {
			file := filepath.Join(sysctlDir, name)
			was, ok := readSysctl(file)
			if !ok || was == value {
				t.Fatalf("%s is %q before the change", name, was)
			}
			before[name] = was
			if err := os.WriteFile(file, []byte(value), 0); err != nil {
				t.Fatal(err)
			}
		}
		found := compare(t, h)
		for name := range before {
			if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, "sysctl "+name+", ") }) {
				t.Errorf("%s is not found: %q", name, found)
			}
		}
		if err := h.RestoreSysctls(path); err != nil {
			t.Error(err)
		}
		if found := compare(t, h); len(found) > 0 {
			t.Errorf("differences after the settings were restored: %q", found)
		}
		for name, was := range before {
			if now, _ := readSysctl(filepath.Join(sysctlDir, name)); now != was {
				t.Errorf("%s was %s and is %s", name, was, now)
			}
		}
	})
}

// remount makes the host's own network settings writable.
func remount(t *testing.T) {
	t.Helper()
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
}

// TestSysctlsOfARestingMachineDontDiffer: values that the kernel itself counts are ignored.
//
// A baseline contains only settings that can be written. For an ordinary user, these are the network settings of a
// host.
func TestSysctlsOfARestingMachineDontDiffer(t *testing.T) {
	if os.Geteuid() == 0 && !testhost.Inside() {
		sysctlsDontDiffer(t)
		return
	}
	testhost.Run(t, func(t *testing.T) {
		remount(t)
		sysctlsDontDiffer(t)
	})
}

func sysctlsDontDiffer(t *testing.T) {
	t.Helper()
	h := Host{Root: "/"}
	before, err := h.sysctls()
	if err != nil || len(before) < 100 {
		t.Fatalf("%d settings, %v", len(before), err)
	}
	for range 5 { // looking opens files and fills caches, and the kernel counts these
		now, err := h.sysctls()
		if err != nil {
			t.Fatal(err)
		}
		if found := (state{Sysctls: now}).settings(state{Sysctls: before}); len(found) > 0 {
			t.Errorf("settings that differ although nothing changed them: %q", found)
		}
	}
}

// TestLegacyRulesAreFound changes a table of the legacy packet filter, which predates nftables. A machine can do the
// same with its own program.
func TestLegacyRulesAreFound(t *testing.T) {
	testhost.Run(t, func(t *testing.T) {
		for _, l := range legacies {
			if f, err := os.Open(l.tables); errors.Is(err, fs.ErrPermission) {
				t.Skipf("only the machine's root can list the tables of %s", l.name)
			} else if err != nil {
				t.Skipf("the kernel has no %s", l.name)
			} else {
				f.Close()
			}
		}
		h := whole()
		for _, l := range legacies { // listing a table creates it, which is not a difference
			if _, err := l.activeRules("filter"); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOPROTOOPT) {
				t.Skipf("the kernel has no table filter of %s", l.name)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		take(t, h)
		if found := compare(t, h); len(found) > 0 {
			t.Fatalf("differences on an unchanged host: %q", found)
		}
		for _, l := range legacies {
			l.drop(t, "filter")
		}
		found := compare(t, h)
		for _, l := range legacies {
			want := "packet filter table filter of " + l.name + " with other rules"
			if !slices.ContainsFunc(found, func(f string) bool { return strings.HasPrefix(f, want) }) {
				t.Errorf("%q is not found: %q", want, found)
			}
		}
		if again := compare(t, h); !slices.Equal(again, found) {
			t.Errorf("the second comparison found %q, the first %q", again, found)
		}
	})
}

// drop makes the first chain of a table drop everything.
func (l legacy) drop(t *testing.T, table string) {
	t.Helper()
	fd, err := unix.Socket(l.family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	info := make([]byte, infoLength)
	copy(info, table)
	if err := getsockopt(fd, l.level, getInfo, info); err != nil {
		t.Fatal(err)
	}
	size := binary.NativeEndian.Uint32(info[infoLength-4:])
	entries := make([]byte, headLength+size)
	copy(entries, table)
	binary.NativeEndian.PutUint32(entries[nameLength:], size)
	if err := getsockopt(fd, l.level, getEntries, entries); err != nil {
		t.Fatal(err)
	}
	rules := entries[headLength:]
	target := int(binary.NativeEndian.Uint16(rules[l.offsets:]))
	drop := int32(-1)
	binary.NativeEndian.PutUint32(rules[target+l.targetVerdict:], uint32(drop))

	// struct ipt_replace: name, hooks, number of entries, size, entries of hooks, underflows, counters, entries.
	number := binary.NativeEndian.Uint32(info[infoLength-8:])
	counters := make([]byte, 16*number)
	replace := make([]byte, 96, 96+len(rules))
	copy(replace, table)
	copy(replace[32:], info[32:36])
	binary.NativeEndian.PutUint32(replace[36:], number)
	binary.NativeEndian.PutUint32(replace[40:], size)
	copy(replace[44:84], info[36:76])
	binary.NativeEndian.PutUint32(replace[84:], number)
	*(*unsafe.Pointer)(unsafe.Pointer(&replace[88])) = unsafe.Pointer(&counters[0])
	replace = append(replace, rules...)
	const setReplace = 64 // IPT_SO_SET_REPLACE
	if err := unix.SetsockoptString(fd, l.level, setReplace, string(replace)); err != nil {
		t.Fatalf("changing a table of %s: %v", l.name, err)
	}
}
