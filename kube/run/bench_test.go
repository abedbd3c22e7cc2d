//go:build linux

package run

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkContainerStart starts containers that exit at once. It measures the time from the call to the report that
// the program was executed.
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

// BenchmarkSupervisorMemory reports what one container costs besides its program while ten run: each supervisor's
// proportional share of memory, including its program file.
func BenchmarkSupervisorMemory(b *testing.B) {
	const boxes = 10
	w := newWorld(b)
	for b.Loop() {
		var running []*box
		for range boxes {
			running = append(running, w.start(w.spec("wait")))
		}
		share := 0
		w.waitFor("supervisors to give memory back", func() bool {
			share = 0
			for _, c := range running {
				share += smaps(b, c.cmd.Process.Pid)["Pss:"]
			}
			return share <= boxes*maxResident
		}, func() string { return strconv.Itoa(share/boxes) + " KiB each" })
		b.ReportMetric(float64(share)/boxes, "KiB/container")
		for _, c := range running {
			unix.Kill(c.report.PID, unix.SIGKILL)
			c.wait()
		}
	}
}

// maxResident is a supervisor's limit in KiB, of its own memory and of its program file's, which all share.
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

// memoryOf returns the resident and the private memory of a process, in KiB.
func memoryOf(t testing.TB, pid int) (resident, own int) {
	t.Helper()
	m := smaps(t, pid)
	return m["Rss:"], m["Private_Clean:"] + m["Private_Dirty:"]
}

// smaps returns the sums of a process's memory in KiB, by the kernel's names.
func smaps(t testing.TB, pid int) map[string]int {
	t.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "kB" {
			sums[f[0]], _ = strconv.Atoi(f[1]) // the kernel always writes numbers
		}
	}
	return sums
}
