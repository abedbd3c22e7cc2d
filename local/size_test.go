package local

import (
	"testing"
)

func TestHostsFor(t *testing.T) {
	for name, c := range map[string]struct{ memory, inotify, want int }{
		"a laptop is limited by inotify":                {16384, 128, 16},
		"a small machine is limited by memory":          {4096, 8192, 5},
		"a large machine gets no more than 32":          {262144, 8192, 32},
		"a tiny machine gets a small cluster":           {1024, 128, 3},
		"if nothing is known, only the maximum applies": {0, 0, 32},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hostsFor(c.memory, c.inotify); got != c.want {
				t.Errorf("hostsFor(%d, %d) = %d, want %d", c.memory, c.inotify, got, c.want)
			}
		})
	}
}
