//go:build linux

package outside

import (
	"strings"
	"testing"
)

func TestFirstRange(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want int
	}{
		"by name":                          {"other:100000:65536\nme:165536:65536\n", 165536},
		"by id":                            {"1000:165536:65536\n", 165536},
		"too few ids":                      {"me:100000:1000\n", 0},
		"the second range is large enough": {"me:100000:1000\nme:200000:65535\n", 200000},
		"another user's range":             {"other:100000:65536\n", 0},
		"root's own ids":                   {"me:0:4294967295\n", 0},
		"no numbers":                       {"me:x:65536\nme:1:y\nme\n", 0},
		"an empty file":                    {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := firstRange(strings.NewReader(c.text), []string{"1000", "me"}); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
