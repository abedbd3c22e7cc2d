//go:build linux

package cri

import (
	"os"
	"testing"
	"time"
)

func TestSharedMemoryCountsOnce(t *testing.T) {
	var sum together
	sum = sum.add(time.Minute+time.Second, 60, 40)
	sum = sum.add(time.Second, 0, 50)
	sum = sum.add(0, 30, 0)
	if want := (together{62 * time.Second, 90, 50}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

func TestPagesOfFilesCountForNobody(t *testing.T) {
	const status = "Name:\tRssAnon: 9 kB\nVmRSS:\t  102656 kB\nRssAnon:\t   18012 kB\nRssFile:\t   84644 kB\n" +
		"RssShmem:\t      16 kB\nThreads:\t7\n"
	if alone, shared := parseMemory(status); alone != 18012<<10 || shared != 16<<10 {
		t.Errorf("got %d and %d bytes, want 18012 and 16 KiB", alone, shared)
	}
	if alone, shared := parseMemory("Name:\tzombie\n"); alone != 0 || shared != 0 {
		t.Errorf("a process without memory has %d and %d bytes", alone, shared)
	}
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if alone, _ := parseMemory(string(own)); alone < 1<<20 {
		t.Errorf("this process has only %d bytes", alone)
	}
}

func TestParseTime(t *testing.T) {
	const stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 200 0 0 150 50 30 20 20 0 1 0 99 1000 25"
	if got := parseTime(stat); got != 2*time.Second {
		t.Errorf("the process's time is %v, want 2 s", got)
	}
	if got := parseEnded(stat); got != 500*time.Millisecond {
		t.Errorf("the time of its children is %v, want 0.5 s", got)
	}
	if parseTime("7 (a) S 1") != 0 || parseEnded("7 (a) S 1") != 0 {
		t.Error("parsing a truncated line returned a time")
	}
}
