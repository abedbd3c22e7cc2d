//go:build linux

package run

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkContainerStart starts containers that end at once: from the call to the report that the program was
// executed.
func BenchmarkContainerStart(b *testing.B) {
	w := newWorld(b)
	spec := w.spec("exit=0")
	spec.Masked = []string{"/proc/acpi", "/proc/keys", "/proc/timer_list", "/sys/firmware"}
	spec.ReadOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	for b.Loop() {
		c := w.start(spec)
		b.StopTimer()
		c.wait()
		b.StartTimer()
	}
}

// maxResident is what a supervisor may take in KiB, in memory of its own and in that of its program file, which all
// share.
const maxResident = 4096

func TestTheSupervisorIsSmall(t *testing.T) {
	w := newWorld(t)
	b := w.start(w.spec("wait"))
	b.says("waiting")
	var resident, own int
	w.waitFor("the supervisor to give memory back", func() bool {
		resident, own = memoryOf(t, b.cmd.Process.Pid)
		return resident <= maxResident
	}, func() string { return strconv.Itoa(resident) + " KiB resident" })
	t.Logf("the supervisor has %d KiB resident, %d of its own", resident, own)
	unix.Kill(b.report.PID, unix.SIGKILL)
	b.wait()
}

// memoryOf returns the resident memory of a process, and what nobody shares of it, in KiB.
func memoryOf(t testing.TB, pid int) (resident, own int) {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[1]) // the kernel writes numbers
		switch f[0] {
		case "Rss:":
			resident = n
		case "Private_Clean:", "Private_Dirty:":
			own += n
		}
	}
	return resident, own
}
