package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// unfriendly returns the start of a command line. It runs the rest of the line in a user namespace, after a line of
// shell has restricted what is allowed there. unfriendly skips the test if the machine can't create such a namespace.
func unfriendly(t *testing.T, script string, flags ...string) []string {
	t.Helper()
	line := append([]string{"unshare", "--user", "--map-root-user"}, flags...)
	if out, err := exec.Command(line[0], append(line[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("this machine can't create the user namespace in which the test takes rights away: %v: %s", err, out)
	}
	return append(line, "sh", "-c", script+`; exec "$@"`, "sh")
}

func TestTwoStartsAtOnceInAnEmptyHome(t *testing.T) {
	o := newOwn(t)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if out, err := o.run(t.Context(), "up", "--hosts", "3"); err != nil {
				t.Errorf("up: %v\n%s", err, out)
			}
		})
	}
	both.Wait()
	var hosts []hostRow
	if err := json.Unmarshal([]byte(o.must(t, "host", "list", "-o", "json")), &hosts); err != nil || len(hosts) != 3 {
		t.Errorf("hosts are %v, want 3 (%v)", hosts, err)
	}
}

func TestATakenPort(t *testing.T) {
	o := newOwn(t)
	o.must(t, "up", "--hosts", "3")
	server := o.server(t)
	o.must(t, "down")
	thief, err := net.Listen("tcp4", server)
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	_, port, _ := net.SplitHostPort(server)
	o.refused(t, []string{port, fmt.Sprintf("process %d", os.Getpid()), "stop the other process"}, "up")
	thief.Close()
	o.must(t, "up")
	if now := o.server(t); now != server {
		t.Errorf("the API server's address is %s, was %s: copied kubeconfigs would no longer work",
			now, server)
	}
}

func TestADamagedState(t *testing.T) {
	for file, fix := range map[string]string{
		"dock/state.json": "damaged",
		"up.json":         "remove that file",
	} {
		t.Run(file, func(t *testing.T) {
			o := newOwn(t)
			path := filepath.Join(o.home, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
			o.refused(t, []string{path, fix}, "up")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			o.must(t, "up", "--hosts", "3")
		})
	}
}

func TestWhatTheMachineLacks(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		flags  []string
		wants  []string
	}{
		"inotify instances": {"echo 20 > /proc/sys/user/max_inotify_instances", nil,
			[]string{"inotify", "sudo sysctl -w fs.inotify.max_user_instances="}},
		"network namespaces": {"echo 0 > /proc/sys/user/max_net_namespaces", nil,
			[]string{"sudo sysctl -w user.max_net_namespaces="}},
		"user namespaces, without a right": {
			"echo 0 > /proc/sys/user/max_user_namespaces; set -- setpriv --inh-caps=-all --bounding-set=-all \"$@\"", nil,
			[]string{"sudo sysctl -w user.max_user_namespaces="},
		},
		"space on the disk": {`mount -t tmpfs -o size=20m tmpfs "$(dirname "$CAPSTAN_HOME")"`, []string{"--mount"},
			[]string{"free space", "MiB is needed", "--home"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwn(t, unfriendly(t, c.script, c.flags...)...)
			o.refused(t, c.wants, "up")
			if entries, _ := filepath.Glob(filepath.Join(o.home, "*", "*")); len(entries) > 0 {
				t.Errorf("up created files before it found the problem: %v", entries)
			}
		})
	}
}
