package backup

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// Two replicas that are called for the same backup at once take only one, because they share a Lease of a real API
// server. If the replica that has the turn fails, the other takes over.
func TestReplicasTakeOneBackup(t *testing.T) {
	server, err := apiserver.Start(apiserver.Options{})
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		first   error
		takes   int32
		message string
	}{
		"both replicas work":      {nil, 1, "was verified"},
		"the first replica fails": {errors.New("no route to host"), 2, "was verified"},
	} {
		t.Run(name, func(t *testing.T) {
			directory := filepath.Join(t.TempDir(), "backups")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			taking, bothAsked := make(chan struct{}, 2), make(chan struct{})
			var once sync.Once
			take := func(ctx context.Context) (err error) {
				taking <- struct{}{}
				select {
				case <-bothAsked:
				case <-ctx.Done():
					return ctx.Err()
				}
				once.Do(func() { err = c.first })
				return err
			}
			var replicas []*world
			for range 2 {
				replicas = append(replicas,
					newWorld(t, Options{
						Directory: directory, Replicas: &Replicas{Leases: clients.CoordinationV1(), Namespace: "default"},
					}, take))
			}
			// The context of each first call is done already, so the call starts the backup and does not wait.
			ended, end := context.WithCancel(ctx)
			end()
			for _, w := range replicas {
				if _, err := w.upgrade(ended, "v1.36.3"); err == nil || !strings.Contains(err.Error(), "backup of etcd, running "+
					"since") {
					t.Errorf("while the backup runs: %v", err)
				}
			}
			<-taking
			close(bothAsked)
			until(ctx, t, func() bool {
				messages := make([]string, 0, 2)
				for _, w := range replicas {
					message, _ := w.upgrade(ctx, "v1.36.3")
					messages = append(messages, message)
				}
				return !slices.ContainsFunc(messages, func(m string) bool { return !strings.Contains(m, c.message) })
			})
			if n := replicas[0].takes.Load() + replicas[1].takes.Load(); n != c.takes {
				t.Errorf("%d backups were begun, want %d", n, c.takes)
			}
			if all, err := (Disk{directory}).List(ctx, "default", "blue"); err != nil || len(all) != 1 {
				t.Errorf("the backups are %v, %v", all, err)
			}
		})
	}
}

// A replica that waits for its turn stops when its context is done.
func TestWaitingForATurnEnds(t *testing.T) {
	turn := turn{done: make(chan struct{})}
	if err := turn.wait(); err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("error %v", err)
	}
	turn.run(t.Context()) // too late: nothing must start
}

func until(ctx context.Context, t *testing.T, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatal("the condition did not become true in time")
		case <-tick.C:
		}
	}
}
