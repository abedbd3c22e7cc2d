package baseline

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkAMillionFiles takes the baseline of a tree of a million files, and compares the tree with it. The
// environment variable CAPSTAN_TEST_TREE names the directory of the tree; by default, it is a temporary directory. If
// the tree does not exist, the benchmark creates it first. Processor time is the user and system time of both walks.
func BenchmarkAMillionFiles(b *testing.B) {
	h := Host{Root: os.Getenv("CAPSTAN_TEST_TREE")}
	if h.Root == "" {
		h.Root = b.TempDir()
	}
	if _, err := os.Stat(h.Root + "/usr"); err != nil {
		plantMillion(b, h.Root+"/usr/share")
	}
	var before, after unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "baseline.gz")
		if _, err := h.Take(b.Context(), file); err != nil {
			b.Fatal(err)
		}
		if _, err := h.Compare(b.Context(), file); err != nil {
			b.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/1e6, "MB-file")
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	seconds := func(a, b unix.Timeval) float64 { return float64(b.Nano()-a.Nano()) / 1e9 }
	b.ReportMetric(seconds(before.Utime, after.Utime)/float64(b.N), "s-user/op")
	b.ReportMetric(seconds(before.Stime, after.Stime)/float64(b.N), "s-kernel/op")
}

// plantMillion creates ten thousand directories of a hundred files each.
func plantMillion(b *testing.B, root string) {
	for d := range 10_000 {
		dir := filepath.Join(root, fmt.Sprintf("package-%02d", d/100), fmt.Sprintf("directory-%02d", d%100))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for n := range 100 {
			mode := os.FileMode(0o644)
			if n%10 == 0 {
				mode = 0o755
			}
			f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("file-%02d.txt", n)), os.O_CREATE|os.O_WRONLY, mode)
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
