package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// machinesOf follows the Machines of a cluster, even short-lived ones. It counts all that existed so far, as "control
// plane v1.36.3" or "md-0 v1.36.3".
func machinesOf(t *testing.T, cluster string) func() map[string]int {
	t.Helper()
	return following(t, cluster, "machines", func(p part) (key, what string) {
		return p.Metadata.UID, p.role() + " " + p.version()
	})
}

// generationsOf follows the objects of one kind in a topology. It lists all generations that existed so far, as
// "control plane v1.36.3 b".
func generationsOf(t *testing.T, cluster, kind string) func() []string {
	t.Helper()
	seen := following(t, cluster, kind, func(p part) (key, what string) { return p.generation(), p.generation() })
	return func() []string { return slices.Sorted(maps.Keys(seen())) }
}

// following watches the objects of one kind in a topology until the test ends. For each object, the function note
// returns a key and a text. The returned function counts how many keys have each text.
func following(t *testing.T, cluster, kind string, note func(part) (key, what string)) func() map[string]int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var done sync.WaitGroup
	seen := map[string]string{}
	follow := func() {
		cmd := command(ctx, "kubectl", "get", kind, "-l", "cluster.x-k8s.io/cluster-name="+cluster,
			"--watch", "-o", "json")
		// Kill the children of the process, too.
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
			key, what := note(p)
			mu.Lock()
			seen[key] = what
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
