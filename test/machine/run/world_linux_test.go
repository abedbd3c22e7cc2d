package run

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/test/machine"
)

// patience limits a wait for something that takes seconds on an idle machine.
func (w *world) patience() time.Duration { return 5 * time.Minute * max(1, w.slowness) }

// step logs that a step is done, and the time since the start of the test.
func (w *world) step(name string) {
	w.Logf("%6.1fs  %s", time.Since(w.began).Seconds(), name)
}

func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.capstan, args...)
	cmd.Env = append(os.Environ(), "CAPSTAN_HOME="+w.home)
	return cmd
}

// run runs capstan and returns what it prints to stdout.
func (w *world) run(args ...string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 11*time.Minute*max(1, w.slowness))
	defer cancel()
	cmd := w.command(ctx, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		w.Fatalf("capstan %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errOut)
	}
	return out.String()
}

// kubectl runs kubectl for the cluster.
func (w *world) kubectl(args ...string) string {
	w.Helper()
	return w.run(append([]string{"kubectl", "--cluster", "rack"}, args...)...)
}

// on runs a line on a machine.
func (w *world) on(m *machine.Machine, line string) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), w.patience())
	defer cancel()
	out, err := m.Run(ctx, line)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// until waits until condition returns true. The second result of condition describes the current state.
func (w *world) until(what string, condition func() (bool, string)) {
	w.Helper()
	for end := time.Now().Add(w.patience()); ; time.Sleep(time.Second) {
		done, now := condition()
		if done {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("not within %s: %s; the state is:\n%s", w.patience(), what, now)
		}
	}
}

// explain logs what helps to understand a failure.
func (w *world) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"host", "list"}, {"host", "describe", "rack1-01"}, {"host", "describe", "rack1-02"},
		{"host", "describe", "rack1-03"}, {"cluster", "describe", "rack"},
		{"kubectl", "get", "machines,capstanmachines", "-o", "wide"},
		{"kubectl", "--cluster", "rack", "get", "nodes,pods", "-A", "-o", "wide"},
	} {
		out, _ := w.command(ctx, args...).CombinedOutput()
		w.Logf("capstan %s:\n%s", strings.Join(args, " "), out)
	}
	log, _ := os.ReadFile(filepath.Join(w.home, "plane", "logs", "plane.log"))
	w.Logf("the plane's log ends:\n%s", log[max(0, len(log)-3000):])
	for _, m := range w.machines {
		out, _ := m.Run(ctx,
			"tail -n 25 /var/log/capstan/*.log; journalctl --no-pager -n 15 -u capstan-agent -u containerd; "+
				"journalctl --no-pager -n 15 -u kubelet; systemctl --failed --no-legend; ls -R /run/systemd/transient")
		w.Logf("%s:\n%s", m.Name, out)
	}
}
