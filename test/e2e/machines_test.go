package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"syscall"
	"testing"
	"time"
)

// machinesOf follows the Machines of a cluster, those that live for a moment only, too. It counts all that there were so far, as "control plane v1.36.3" or
// "md-0 v1.36.3".
func machinesOf(t *testing.T, cluster string) func() map[string]int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var done sync.WaitGroup
	seen := map[string]string{} // by uid
	follow := func() {
		cmd := command(ctx, "kubectl", "get", "machines", "-l", "cluster.x-k8s.io/cluster-name="+cluster, "--watch", "-o", "json")
		// What it runs ends with it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		stream, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return
		}
		for decoder := json.NewDecoder(stream); ; {
			var p part
			if decoder.Decode(&p) != nil {
				break
			}
			role, worker := p.Metadata.Labels["topology.cluster.x-k8s.io/deployment-name"]
			if !worker {
				role = "control plane"
			}
			mu.Lock()
			seen[p.Metadata.UID] = role + " " + p.version()
			mu.Unlock()
		}
		_ = cmd.Wait()
	}
	done.Go(func() {
		for ctx.Err() == nil { // a watch ends when its server does
			follow()
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		counts := map[string]int{}
		for what := range maps.Values(seen) {
			counts[what]++
		}
		return counts
	}
}
