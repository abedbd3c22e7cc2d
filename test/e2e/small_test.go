package e2e

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/test/long"
)

// TestASmallInventory fills three hosts, one in each zone, with clusters of one machine: each cluster gets a free host,
// and the fourth waits and reports that.
func TestASmallInventory(t *testing.T) {
	long.Need(t)
	o := newOwn(t)
	o.must(t, "up", "--hosts", "3")
	for _, name := range []string{"one", "two", "three"} {
		o.must(t, "cluster", "create", name, "--workers", "0")
	}
	o.refused(t, []string{"0 of 3", "free"}, "cluster", "create", "four", "--workers", "0", "--timeout", "10s")
	o.must(t, "cluster", "delete", "two")
	if out := o.must(t, "host", "list"); strings.Count(out, "InUse") != 2 {
		t.Errorf("want two hosts InUse, got\n%s", out)
	}
}
