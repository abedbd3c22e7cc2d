package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// replacedWithin limits the time from killing a kubeadm to the Node of the replacement machine. A health check would
// start a replacement only after waiting ten minutes for a Node that never comes.
const replacedWithin = 90 * time.Second

// testKilledJoin kills kubeadm on a new worker's host. The machine has failed for good, and is replaced at once.
func testKilledJoin(t *testing.T, cluster string, workers int) {
	t.Helper()
	must(t, "cluster", "scale", cluster, "--workers", strconv.Itoa(workers), "--wait=false")
	failed := ""
	promptly(t, "kubeadm joins", func() error {
		for _, p := range processes() {
			if p.name() != "kubeadm" || !slices.Contains(p.args, "join") {
				continue
			}
			// Without SIGSTOP, kubeadm could finish joining before the list of hosts is complete.
			if syscall.Kill(p.pid, syscall.SIGSTOP) != nil {
				continue
			}
			for _, h := range claimed(t, cluster) {
				if h.Name == p.host && syscall.Kill(p.pid, syscall.SIGKILL) == nil {
					failed = h.Machine
					return nil
				}
			}
			_ = syscall.Kill(p.pid, syscall.SIGCONT)
		}
		return fmt.Errorf("no host runs kubeadm join")
	})
	began := time.Now()
	within(t, replacedWithin, "machine "+failed+" is replaced", func() error {
		rows := claimed(t, cluster)
		if len(rows) != workers+1 || slices.ContainsFunc(rows, func(h hostRow) bool { return h.Machine == failed }) {
			return fmt.Errorf("the hosts are %v", rows)
		}
		return nil
	})
	converges(t, cluster, workers+1)
	if took := time.Since(began); took > replacedWithin {
		t.Errorf("a new Node took %s, want at most %s", took, replacedWithin)
	} else {
		t.Logf("RESULT kubeadm killed, another machine's Node Ready after %s", took.Round(100*time.Millisecond))
	}
}
