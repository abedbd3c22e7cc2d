//go:build linux

package attack

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// ordinary is the id of the ordinary user whose plane is attacked when the tests run as root.
const ordinary = 1234

// TestAttackAsRoot attacks a plane that root runs.
func TestAttackAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: a plane of root needs root")
	}
	attack(t, 0)
}

// TestAttackAsUser attacks a plane that an ordinary user runs: if the test runs as root, the user whose id is ordinary,
// otherwise the current user.
func TestAttackAsUser(t *testing.T) {
	uid := os.Geteuid()
	if uid == 0 {
		uid = ordinary
	}
	attack(t, uid)
}

// attack tries all attempts on a new plane. The user with the id uid runs this plane.
func attack(t *testing.T, uid int) {
	w := newWorld(t, uid)
	report := strings.Builder{}
	counts := map[verdict]int{}
	for _, a := range all() {
		if (a.who == otherUser || a.root) && os.Geteuid() != 0 {
			counts[notRun]++ // only root can act as another user, or create a network
			continue
		}
		var v verdict
		t.Run(a.name(), func(t *testing.T) {
			start := time.Now()
			var why string
			v, why = judge(t.Context(), w, a)
			fmt.Fprintf(&report, "| %s | %s | %s | %s | %s |\n", a.boundary, a.who, a.mechanism, v,
				strings.ReplaceAll(w.generic(why), "|", "\\|"))
			switch {
			case v == broken:
				t.Errorf("%s got through", a.who)
			case v == unknown:
				t.Errorf("the verdict is unknown: %s", why)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Logf("took %s", took.Round(100*time.Millisecond))
			}
		})
		counts[v]++
	}
	t.Logf("%d attempts held, %d accepted, %d got through, %d unknown, %d not run",
		counts[held], counts[accepted], counts[broken], counts[unknown], counts[notRun])
	w.write(t, report.String())
}

// generic removes from a text everything that differs from run to run.
func (w *world) generic(text string) string {
	names := []string{"providerID", "coremachine", "machine", "data", "capstancluster", "host", "other", "free"}
	for _, name := range names {
		if value := w.vars[name]; value != "" {
			text = strings.ReplaceAll(text, value, "{"+name+"}")
		}
	}
	return strings.Join(strings.Fields(text), " ")
}

// write adds a table of verdicts to the report, if one was requested.
func (w *world) write(t *testing.T, rows string) {
	path := os.Getenv("CAPSTAN_ATTACK_REPORT")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mode := "an ordinary user"
	if w.uid == 0 {
		mode = "root"
	}
	_, err = fmt.Fprintf(f,
		"\n## The plane of %s\n\n| Boundary | Who | Attempt | Verdict | How |\n|---|---|---|---|---|\n%s", mode, rows)
	if err != nil {
		t.Error(err)
	}
}
