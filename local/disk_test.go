package local

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

func TestFullDisk(t *testing.T) {
	for free, want := range map[uint64]string{
		0: "is full", 15 << 20: "is full", 16 << 20: "has 16 MiB left, but a start needs 1024 MiB",
		dock.LeastDisk - 1: "has 1023 MiB left", dock.LeastDisk: "", 1 << 40: "",
	} {
		got := fullDisk("/home/x/.capstan", free)
		if got == "" != (want == "") || !strings.Contains(got, want) ||
			want != "" && !strings.Contains(got, "/home/x/.capstan") {
			t.Errorf("%d bytes free: %q, want %q", free, got, want)
		}
	}
}
