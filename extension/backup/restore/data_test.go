package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/extension/backup/member"
	"github.com/capstan-dev/capstan/internal/hint"
)

// restoreOn returns a restore with four hosts. Three are members, and b gets the data; on host c etcd is not set up.
func restoreOn(hosts *fakeHosts) *Restore {
	cluster := &clusterv1.Cluster{}
	cluster.Name = "blue"
	return &Restore{
		Plan: Plan{
			Hosts: []Host{{Name: "b", Member: true}, {Name: "a", Member: true}, {Name: "d", Member: true}, {Name: "c"}},
		},
		options: Options{
			Cluster: cluster, Hosts: hosts, Store: fakeStore{},
			Step: func(_ string, do func(func(string)) error) error { return do(func(string) {}) },
		},
		ready: func(context.Context) error {
			if !hosts.anyRunning() {
				return errors.New("connection refused")
			}
			return nil
		},
	}
}

// whole returns an error unless the hosts are in the state that a successful restore leaves.
func whole(f *fakeHosts) error {
	if f.data["b"] != "restored" || !f.running["b"] {
		return fmt.Errorf("host b has %s data, running: %t", f.data["b"], f.running["b"])
	}
	for _, other := range []string{"a", "d"} {
		if f.data[other] != "old" || f.running[other] {
			return fmt.Errorf("host %s has %s data, running: %t", other, f.data[other], f.running[other])
		}
	}
	return nil
}

// TestDataConverges: each operation on a host fails in turn, before or after its work. The result is safe: members with
// different data never run together, and no member runs without data. A second attempt then ends as if nothing had
// failed.
func TestDataConverges(t *testing.T) {
	calm := newFakeHosts("a", "b", "d")
	synctest.Test(t, func(t *testing.T) {
		kept, err := restoreOn(calm).Data(t.Context())
		if err = errors.Join(err, whole(calm)); err != nil || kept != "/kept" {
			t.Fatalf("kept in %q, %v", kept, err)
		}
	})
	if got, want := strings.Join(calm.log, ", "), "stop b, stop a, stop d, replace b, start b"; got != want {
		t.Fatalf("the operations are %s, want %s", got, want)
	}
	for fail := range calm.log {
		for _, half := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s fails, work done: %t", calm.log[fail], half), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					hosts := newFakeHosts("a", "b", "d")
					hosts.fail, hosts.half = fail+1, half
					_, err := restoreOn(hosts).Data(t.Context())
					if !errors.Is(err, errFake) || !strings.Contains(err.Error(), "cluster blue") {
						t.Fatalf("error %v", err)
					}
					first := strings.HasPrefix(calm.log[fail], "start")
					for _, host := range []string{"a", "b", "d"} {
						// A failure before the new data is in place is undone, so etcd runs on all hosts. After a later
						// failure, the other hosts stay stopped.
						if running := !first || host == "b" && half; hosts.running[host] != running {
							t.Errorf("etcd runs on %s: %t", host, hosts.running[host])
						}
						if want := map[bool]string{false: "old", true: "restored"}[first && host == "b"]; hosts.data[host] != want {
							t.Errorf("host %s has %s data, want %s", host, hosts.data[host], want)
						}
					}
					if _, err := restoreOn(hosts).Data(t.Context()); err != nil {
						t.Fatal(err)
					}
					if err := whole(hosts); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestDataLeavesNothingRunningWithoutData: a member without data would begin an empty cluster.
func TestDataLeavesNothingRunningWithoutData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := newFakeHosts("a", "b", "d")
		hosts.fail, hosts.err = 4, fmt.Errorf("%w: no space", member.ErrWithoutData)
		_, err := restoreOn(hosts).Data(t.Context())
		if !errors.Is(err, member.ErrWithoutData) || !strings.Contains(hint.Of(err), "old data back on host b") ||
			hosts.anyRunning() {
			t.Errorf("error %v, hint %q, running: %v", err, hint.Of(err), hosts.running)
		}
	})
}

// TestDataGivesUp covers an API server that does not stop, one that never comes back, and a backup that can't be
// fetched.
func TestDataGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Restore)
		want    string
		running int
		took    time.Duration
	}{
		"a backup that can't be fetched": {
			func(r *Restore) { r.options.Store = fakeStore{fetch: errors.New("no such bucket")} }, "no such bucket", 3, 0},
		"an API server that does not stop": {
			func(r *Restore) { r.ready = func(context.Context) error { return nil } }, "waiting for the API server to stop", 3,
			stopTimeout},
		"an API server that never comes back": {
			func(r *Restore) { r.ready = func(context.Context) error { return errors.New("refused") } }, "deadline", 1,
			5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				hosts, began, running := newFakeHosts("a", "b", "d"), time.Now(), 0
				r := restoreOn(hosts)
				c.change(r)
				_, err := r.Data(ctx)
				if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(began) != c.took {
					t.Errorf("error %v after %s, want %q after %s", err, time.Since(began), c.want, c.took)
				}
				for _, is := range hosts.running {
					if is {
						running++
					}
				}
				if running != c.running {
					t.Errorf("etcd runs on %d hosts, want %d", running, c.running)
				}
			})
		})
	}
}
