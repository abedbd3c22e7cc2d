//go:build linux

package initd

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/dock/reap"
	"github.com/capstan-dev/capstan/dock/unit"
)

var reaper *reap.Reaper // one per process

func TestMain(m *testing.M) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	reaper = reap.New()
	code := m.Run()
	if children, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())); err == nil &&
		len(children) > 0 {
		fmt.Fprintf(os.Stderr, "processes are left: %s\n", children)
		code = 1
	}
	reaper.Close()
	os.Exit(code)
}

// fixture is a manager with directories for units, for logs, and for the marks that units leave.
type fixture struct {
	*Manager
	t     *testing.T
	units string
	marks string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{t: t, units: filepath.Join(dir, "units"), marks: filepath.Join(dir, "marks")}
	for _, d := range []string{f.units, f.marks} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.Manager = NewManager(Config{
		Reaper: reaper, Log: log.New(io.Discard, "", 0), UnitDirs: []string{f.units}, LogDir: filepath.Join(dir, "log"),
		Env: []string{"PATH=" + os.Getenv("PATH"), "MARKS=" + f.marks},
	})
	t.Cleanup(f.StopAll)
	return f
}

func (f *fixture) unit(name, service string) {
	f.t.Helper()
	text := "[Unit]\nDescription=Test " + name + "\n[Service]\n" + service + "\n[Install]\nWantedBy=multi-user.target\n"
	if err := os.WriteFile(filepath.Join(f.units, name+".service"), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) ctl(args string) Reply {
	return f.Systemctl(strings.Fields(args), func(bool) {})
}

// ok runs a systemctl command that must succeed.
func (f *fixture) ok(args string) string {
	f.t.Helper()
	r := f.ctl(args)
	if r.Code != 0 {
		f.t.Fatalf("systemctl %s: exit %d: %s%s", args, r.Code, r.Out, r.Err)
	}
	return r.Out
}

func (f *fixture) mark(name string) string {
	data, _ := os.ReadFile(filepath.Join(f.marks, name))
	return string(data)
}

func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for limit := time.Now().Add(15 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatalf("not within 15 s: %s; state: %s", what, f.ctl("list-units").Out)
		}
	}
}

func (f *fixture) is(name string, want State) bool {
	s, err := f.Status(unit.FullName(name))
	return err == nil && s.State == want
}

const sleeper = `ExecStart=/bin/sh -c "echo started >> $$MARKS/runs; exec sleep 60"`

func TestStartStopRestart(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper)
	f.ok("start a")
	if out := f.ok("is-active a.service"); out != "active\n" {
		t.Errorf("is-active prints %q", out)
	}
	f.ok("start a") // a second start changes nothing
	first, _ := f.Status("a.service")
	f.ok("restart a")
	if s, _ := f.Status("a.service"); s.PID == first.PID || s.State != Active {
		t.Errorf("after restart: %+v, before: %+v", s, first)
	}
	f.ok("stop a")
	f.ok("stop a")
	if r := f.ctl("is-active a"); r.Code != 3 || r.Out != "inactive\n" {
		t.Errorf("is-active after stop: %+v", r)
	}
	if err := unix.Kill(first.PID, 0); err == nil {
		t.Error("the process still runs after stop")
	}
}

func TestExitStatusesAreThoseOfSystemd(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper)
	f.unit("bad", "ExecStart=/no/such/program")
	f.unit("odd", "Type=forking\nExecStart=/bin/true")
	for args, want := range map[string]struct {
		code int
		text string // in either output
	}{
		"is-active nosuch":   {4, "inactive"},
		"status nosuch":      {4, "Unit nosuch.service could not be found."},
		"start nosuch":       {5, "Unit nosuch.service not found."},
		"stop nosuch":        {5, "Unit nosuch.service not found."},
		"restart nosuch":     {5, "not found"},
		"enable nosuch":      {1, "Unit file nosuch.service does not exist."},
		"is-enabled nosuch":  {4, "not-found"},
		"is-active a":        {3, "inactive"},
		"status a":           {3, "Loaded: loaded"},
		"is-enabled a":       {1, "disabled"},
		"start bad":          {1, "/no/such/program"},
		"start odd":          {1, "Type=forking"},
		"frobnicate a":       {1, "unknown command"},
		"start --frobnicate": {1, "unknown option"},
		"start":              {1, "Too few arguments"},
		"start ../x":         {1, "not a unit name"},
		"daemon-reload":      {0, ""},
		"is-system-running":  {0, "running"},
		"list-units":         {0, "a.service"},
		"cat a":              {0, "# "},
		"cat nosuch":         {1, "No files found"},
	} {
		r := f.ctl(args)
		if r.Code != want.code || !strings.Contains(r.Out+r.Err, want.text) {
			t.Errorf("systemctl %s: exit %d, want %d with %q: %s%s", args, r.Code, want.code, want.text, r.Out, r.Err)
		}
	}
	if r := f.ctl("is-active --quiet a"); r.Out != "" || r.Code != 3 {
		t.Errorf("--quiet: %+v", r)
	}
	if r := f.ctl("status nosuch"); !strings.Contains(r.Out, "could not be found") {
		t.Errorf("kubeadm looks for the words in standard output, which is %q", r.Out)
	}
}

func TestEnableNowAndDisableNow(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper)
	f.ok("enable --now a")
	if f.ok("is-enabled a") != "enabled\n" || !f.is("a", Active) {
		t.Error("after enable --now, the unit is not enabled and active")
	}
	f.ok("disable --now a")
	if r := f.ctl("is-enabled a"); r.Out != "disabled\n" || !f.is("a", Inactive) {
		t.Errorf("after disable --now, the unit is not disabled and inactive: %+v", r)
	}
	f.ok("mask b")
	if r := f.ctl("start b"); r.Code != 1 || !strings.Contains(r.Err, "masked") {
		t.Errorf("start of a masked unit: %+v", r)
	}
	f.ok("unmask b")
}

func TestOneshot(t *testing.T) {
	f := newFixture(t)
	f.unit("ok", `Type=oneshot
ExecStartPre=/bin/sh -c "echo pre >> $$MARKS/o"
ExecStart=-/bin/false
ExecStart=/bin/sh -c "echo main >> $$MARKS/o"`)
	f.ok("start ok")
	if got := f.mark("o"); got != "pre\nmain\n" || !f.is("ok", Inactive) {
		t.Errorf("after start: %q", got)
	}
	f.unit("stays", `Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/sh -c "echo stopped > $$MARKS/s"`)
	f.ok("start stays")
	if !f.is("stays", Active) {
		t.Error("a oneshot with RemainAfterExit is not active after start")
	}
	f.ok("stop stays")
	f.unit("fails", "Type=oneshot\nExecStart=/bin/sh -c 'exit 7'")
	if r := f.ctl("start fails"); r.Code != 1 || !strings.Contains(r.Err, "exited with status 7") {
		t.Errorf("start: %+v", r)
	}
	if s, _ := f.Status("fails.service"); s.State != Failed || s.Code != 7 {
		t.Errorf("status is %+v", s)
	}
	f.ok("reset-failed fails")
	if !f.is("fails", Inactive) {
		t.Error("the unit is still failed after reset-failed")
	}
	f.unit("slow", "Type=oneshot\nTimeoutStartSec=50ms\nExecStart=/bin/sleep 60")
	if r := f.ctl("start slow"); r.Code != 1 {
		t.Errorf("start of a unit that takes too long: %+v", r)
	}
}

func TestStopCommandsKnowTheMainProcess(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper+"\nExecStop=/bin/sh -c \"echo $$MAINPID > $$MARKS/stop\"")
	f.ok("start a")
	s, _ := f.Status("a.service")
	f.ok("stop a")
	if got := f.mark("stop"); got != fmt.Sprintf("%d\n", s.PID) {
		t.Errorf("ExecStop got %q, want %d", got, s.PID)
	}
}

func TestKillModeNoneEndsNothing(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper+"\nKillMode=none\nTimeoutStopSec=50ms")
	f.ok("start a")
	s, _ := f.Status("a.service")
	f.ok("stop a")
	if !f.is("a", Inactive) || unix.Kill(s.PID, 0) != nil {
		t.Errorf("after stop the process is gone, or the unit is not inactive: %s", f.ctl("list-units").Out)
	}
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	f.eventually("the process is collected", func() bool { return unix.Kill(s.PID, 0) != nil })
	// Here the unit's ExecStop ends the process.
	f.unit("b", sleeper+"\nKillMode=none\nExecStop=/bin/sh -c 'kill $$MAINPID'")
	f.ok("start b")
	s, _ = f.Status("b.service")
	f.ok("stop b")
	if unix.Kill(s.PID, 0) == nil {
		t.Error("stop did not wait for the process that ExecStop ended")
	}
}

func TestAFailingPreCommandKeepsItFromStarting(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper+"\nExecStartPre=/bin/false")
	if r := f.ctl("start a"); r.Code != 1 || !strings.Contains(r.Err, "ExecStartPre") || f.mark("runs") != "" {
		t.Errorf("start: %+v, runs %q", r, f.mark("runs"))
	}
	f.eventually("the unit's log says why it did not start", func() bool {
		log, _ := os.ReadFile(f.LogPath("a.service"))
		return strings.Contains(string(log), "ExecStartPre")
	})
}

func TestAChangedUnitFileTakesEffectAtTheNextStart(t *testing.T) {
	f := newFixture(t)
	f.unit("a", "ExecStart=/bin/false\nRestart=always\nRestartSec=10ms")
	f.ok("start a")
	f.unit("a", sleeper+"\nRestart=always\nRestartSec=10ms")
	f.eventually("the new program runs", func() bool { return f.is("a", Active) && f.mark("runs") != "" })
}

func TestOutputGoesToTheLog(t *testing.T) {
	f := newFixture(t)
	f.unit("a", "ExecStart=/bin/sh -c 'echo out; echo err >&2'")
	f.ok("start a")
	f.eventually("both lines are in the log", func() bool {
		data, _ := os.ReadFile(f.LogPath("a.service"))
		return string(data) == "out\nerr\n"
	})
	var out, errOut strings.Builder
	if code := journalctl([]string{"-u", "a", "-n1", "--no-pager"}, f.logDir, &out, &errOut); code != 0 ||
		out.String() != "err\n" {
		t.Errorf("journalctl: %d, %q, %q", code, out.String(), errOut.String())
	}
	out.Reset()
	if code := journalctl([]string{"-xeu", "a", "--no-pager"}, f.logDir, &out, &errOut); code != 0 ||
		out.String() != "out\nerr\n" {
		t.Errorf("journalctl -xeu: %d, %q", code, out.String())
	}
	out.Reset()
	if code := journalctl([]string{"--unit=nosuch"}, f.logDir, &out, &errOut); code != 0 ||
		!strings.Contains(out.String(), "No entries") {
		t.Errorf("journalctl of a missing unit: %d, %q", code, out.String())
	}
	if code := journalctl([]string{"-f", "-u", "a"}, f.logDir, &out, &errOut); code != 1 ||
		!strings.Contains(errOut.String(), "tail -F") {
		t.Errorf("journalctl -f: %d, %q", code, errOut.String())
	}
}

func TestEnabledServicesStartInOrder(t *testing.T) {
	f := newFixture(t)
	f.unit("a-last", "Type=oneshot\nExecStart=/bin/sh -c 'echo last >> $$MARKS/o'")
	f.unit("b-first", "Type=oneshot\nExecStart=/bin/sh -c 'sleep 0.1; echo first >> $$MARKS/o'")
	f.unit("c-broken", "ExecStart=/no/such/program")
	f.unit("d-not-enabled", "Type=oneshot\nExecStart=/bin/sh -c 'echo wrong >> $$MARKS/o'")
	path := filepath.Join(f.units, "a-last.service")
	text, _ := os.ReadFile(path)
	os.WriteFile(path,
		[]byte(strings.Replace(string(text), "[Service]", "After=b-first.service nosuch.service\n[Service]", 1)), 0o644)
	for _, n := range []string{"a-last", "b-first", "c-broken"} {
		f.ok("enable " + n)
	}
	f.StartEnabled(context.Background())
	if got := f.mark("o"); got != "first\nlast\n" {
		t.Errorf("order was %q", got)
	}
}

func TestOrder(t *testing.T) {
	u := func(name string, after ...string) *unit.Unit { return &unit.Unit{Name: name, After: after} }
	for name, c := range map[string]struct {
		in   []*unit.Unit
		want []string
	}{
		"units without After keep the order": {[]*unit.Unit{u("a"), u("b")}, []string{"a", "b"}},
		"a chain":                            {[]*unit.Unit{u("a", "b"), u("b", "c"), u("c")}, []string{"c", "b", "a"}},
		"an unstarted unit is ignored":       {[]*unit.Unit{u("a", "network.target"), u("b")}, []string{"a", "b"}},
		"a unit after itself":                {[]*unit.Unit{u("a", "a")}, []string{"a"}},
		"units in a cycle come last":         {[]*unit.Unit{u("a", "b"), u("b", "a"), u("c")}, []string{"c", "a", "b"}},
	} {
		if got := order(c.in); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestShow(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper)
	f.ok("start a")
	s, _ := f.Status("a.service")
	if got, want := f.ok("show a -p MainPID,ActiveState --property=LoadState"),
		fmt.Sprintf("MainPID=%d\nActiveState=active\nLoadState=loaded\n", s.PID); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := f.ok("show -p LoadState --value nosuch"); got != "not-found\n" {
		t.Errorf("LoadState of a missing unit is %q", got)
	}
}

func TestNoBlockDoesNotWait(t *testing.T) {
	f := newFixture(t)
	f.unit("slow", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 0.3")
	began := time.Now()
	f.ok("start --no-block slow")
	if took := time.Since(began); took > 250*time.Millisecond {
		t.Errorf("start --no-block took %v", took)
	}
	f.eventually("the unit is started", func() bool { return f.is("slow", Active) })
	if r := f.ctl("--no-block start nosuch"); r.Code != 5 {
		t.Errorf("start --no-block of a missing unit: %+v", r)
	}
}

func TestStopAllEndsEverythingForGood(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper+"\nRestart=always")
	f.unit("b", "ExecStart=/bin/false\nRestart=always\nRestartSec=60")
	f.ok("start a b")
	s, _ := f.Status("a.service")
	f.StopAll()
	if err := unix.Kill(s.PID, 0); err == nil {
		t.Error("a process of a unit still runs after StopAll")
	}
	if r := f.ctl("start a"); r.Code == 0 {
		t.Error("a unit can be started after StopAll")
	}
}

func TestHostsFile(t *testing.T) {
	addr := netip.MustParseAddr("10.231.1.1")
	fresh := "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n10.231.1.1 one # this host\n"
	for name, c := range map[string]struct{ old, want string }{
		"a missing file": {"", fresh},
		"the line is replaced": {"1.1.1.1 x\n10.231.1.1 old # this host\n2.2.2.2 y\n",
			"1.1.1.1 x\n2.2.2.2 y\n10.231.1.1 one # this host\n"},
		"a file without a newline at the end":  {"1.1.1.1 x", "1.1.1.1 x\n10.231.1.1 one # this host\n"},
		"a file with this line stays the same": {fresh, fresh},
	} {
		if got := hostsFile(c.old, addr, "one"); got != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestTail(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.log")
	os.WriteFile(path+".1", []byte("one\ntwo\n"), 0o600)
	os.WriteFile(path, []byte("three\nfour\n"), 0o600)
	for n, want := range map[int]string{
		0: "", 1: "four", 2: "three\nfour", 3: "two\nthree\nfour", 9: "one\ntwo\nthree\nfour", -1: "one\ntwo\nthree\nfour",
	} {
		if got, err := tail(path, n); err != nil || got != want {
			t.Errorf("tail %d = %q, %v; want %q", n, got, err, want)
		}
	}
	if _, err := tail(filepath.Join(dir, "none"), 1); err == nil {
		t.Error("no error for a missing log")
	}
}

func TestNothingSlipsInWhileAllIsStopped(t *testing.T) {
	for range 30 {
		f := newFixture(t)
		f.unit("a", sleeper)
		started := make(chan struct{})
		go func() {
			defer close(started)
			f.Start(context.Background(), "a.service")
		}()
		f.StopAll()
		<-started
		if s, err := f.Status("a.service"); err == nil && (s.State == Active || s.State == Activating) {
			t.Fatalf("the unit is %s after StopAll", s.State)
		}
	}
}
