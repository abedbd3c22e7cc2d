//go:build linux

package cri

import (
	"os"
	"testing"
	"time"
)

func TestSharedPagesCountOnce(t *testing.T) {
	var sum together
	sum = sum.add(usage{cpu: time.Second, memory: 100}, time.Minute, 40)
	sum = sum.add(usage{cpu: time.Second, memory: 50}, 0, 60) // as the files of /proc are read one after another
	sum = sum.add(usage{memory: 30}, 0, 0)
	if want := (together{62 * time.Second, 90, 50}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
	if got := parseShared("100 50 20 1 0 30 0\n"); got != 20*uint64(os.Getpagesize()) {
		t.Errorf("shared are %d", got)
	}
	if got := parseShared("100"); got != 0 {
		t.Errorf("shared of nothing are %d", got)
	}
}
