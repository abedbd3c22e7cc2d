package kubelet

import (
	"os"
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	const fields = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 200 0 0 10 20 300 4000 20 0 1 0 500 1000 50"
	if got := parseTime(fields); got != 43300*time.Millisecond {
		t.Errorf("the processor time is %s, want 43.3 s with children", got)
	}
	page := uint64(os.Getpagesize())
	for text, want := range map[string]uint64{
		"100 50 20 1 0 30 0": 30 * page, "100 20 50": 0, "100 50": 0, "": 0,
	} {
		if got := parseAlone(text); got != want {
			t.Errorf("%q: a process has %d bytes alone, want %d", text, got, want)
		}
	}
	if got := parseTime("7 (a) S 1"); got != 0 {
		t.Errorf("the processor time of a truncated line is %s", got)
	}
	before, memory, err := usage()
	if err != nil || memory == 0 {
		t.Fatalf("the host uses %d bytes, %v", memory, err)
	}
	for until := time.Now().Add(time.Minute); ; {
		after, _, err := usage()
		if err != nil || time.Now().After(until) {
			t.Fatalf("the processor time stays %s, %v", after, err)
		}
		if after > before { // this test has used some
			break
		}
	}
}
