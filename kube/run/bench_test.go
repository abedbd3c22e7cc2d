//go:build linux

package run

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/kube/cri/seccomp"
	"github.com/capstan-dev/capstan/kube/internal/hosttest"
)

// hello is what the programs of started containers write.
const hello = "hello"

// BenchmarkContainerStart measures the start of a container, from the call until the program has written something. It
// alternates with crun, which gets the same features. It reports medians, and our time as a multiple of crun's.
func BenchmarkContainerStart(b *testing.B) {
	w := newWorld(b)
	theirs, reason := newCrun(w)
	if theirs == nil {
		b.Log(reason)
	}
	for name, filtered := range map[string]bool{"without a filter": false, "with the default filter": true} {
		b.Run(name+hosttest.Suffix(), func(b *testing.B) {
			var own, others []time.Duration
			for turn := 0; b.Loop(); turn++ {
				if theirs != nil && turn%2 == 0 {
					others = append(others, theirs.start(w.startSpec(), filtered))
				}
				own = append(own, w.startOnce(filtered))
				if theirs != nil && turn%2 == 1 { // neither is always the first
					others = append(others, theirs.start(w.startSpec(), filtered))
				}
			}
			b.ReportMetric(milliseconds(own), "ms/container")
			if theirs != nil {
				b.ReportMetric(milliseconds(others), "ms/crun")
				b.ReportMetric(milliseconds(own)/milliseconds(others), "times-crun")
			}
		})
	}
}

// startSpec returns the container to start: a pod's usual one.
func (w *world) startSpec() *Spec {
	spec := w.spec("say=" + hello)
	spec.Masked = []string{"/proc/acpi", "/proc/keys", "/proc/timer_list", "/sys/firmware"}
	spec.ReadOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	return spec
}

// startOnce returns how long a start takes. It builds the filter each time, as the CRI server does.
func (w *world) startOnce(filtered bool) time.Duration {
	w.t.Helper()
	dir, err := os.MkdirTemp(w.dir, "container-")
	w.must(err)
	cmd := w.command("container", dir)
	return w.untilItSpeaks(cmd, func() {
		spec := w.startSpec()
		if filtered {
			spec.Process.Seccomp, err = seccomp.RuntimeDefault(spec.Process.Capabilities.Bounding)
			w.must(err)
		}
		w.must(WriteSpec(dir, spec))
		if report := w.launch(cmd); report.Error != "" {
			w.t.Fatalf("starting: %s", report.Error)
		}
	})
}

// milliseconds returns the median in milliseconds.
func milliseconds(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/2].Microseconds()) / 1000
}

// BenchmarkSupervisorMemory reports the memory that one container needs in addition to its program, while ten
// containers run: each supervisor's proportional share of memory, including its program file.
func BenchmarkSupervisorMemory(b *testing.B) {
	w := newWorld(b)
	b.Run("of ten"+hosttest.Suffix(), w.supervisorMemory)
}

func (w *world) supervisorMemory(b *testing.B) {
	const boxes = 10
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

// maxResident is the limit, in KiB, of a supervisor's resident memory: its own, and that of the program file, which all
// supervisors share.
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
