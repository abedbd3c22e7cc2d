package hack

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestSpace checks that "make test" stops on a full disk, and says which disk and what to do.
func TestSpace(t *testing.T) {
	if out, err := exec.Command("./space", "0").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("space 0: %v: %s", err, out)
	}
	tmp := t.TempDir()
	for name, c := range map[string]struct {
		args  []string
		wants []string
	}{
		"a full disk":        {[]string{"1000000"}, []string{"the disk of ", " GiB free, 1000000 GiB are needed", "hint: "}},
		"no amount is given": {nil, []string{"give the free space"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("./space", c.args...)
			cmd.Env = append(cmd.Environ(), "TMPDIR="+tmp)
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
				t.Errorf("want a failure, got %v", err)
			}
			for _, want := range c.wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output lacks %q:\n%s", want, out)
				}
			}
		})
	}
}
