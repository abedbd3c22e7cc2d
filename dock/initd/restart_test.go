//go:build linux

package initd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAServiceThatDiesIsRestarted(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper+"\nRestart=always\nRestartSec=10ms")
	f.ok("start a")
	for i := 1; i <= 3; i++ {
		s, _ := f.Status("a.service")
		unix.Kill(s.PID, unix.SIGKILL)
		f.eventually("the service runs again", func() bool {
			now, _ := f.Status("a.service")
			return now.State == Active && now.Restarts == i && now.PID != s.PID
		})
	}
	if s, _ := f.Status("a.service"); s.Exit != "was killed by signal: killed" {
		t.Errorf("the service's last exit was %q", s.Exit)
	}
	f.ok("stop a")
	if !f.is("a", Inactive) {
		t.Error("the service still runs after stop")
	}
}

func TestAStartIsToldOfItsOwnAttempt(t *testing.T) {
	f := newFixture(t)
	f.unit("a", sleeper+"\nExecStartPre=/usr/bin/test -e "+filepath.Join(f.marks, "ready")+
		"\nRestart=always\nRestartSec=60")
	for range 2 {
		if r := f.ctl("start a"); r.Code != 1 || !strings.Contains(r.Err, "ExecStartPre") {
			t.Errorf("start of a service whose ExecStartPre fails: %+v", r)
		}
		f.eventually("the service waits for its restart", func() bool {
			s, _ := f.Status("a.service")
			return s.Sub == "auto-restart"
		})
	}
	if err := os.WriteFile(filepath.Join(f.marks, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds the service running
		f.ok("start a")
		if !f.is("a", Active) {
			t.Error("the service is not active after start")
		}
	}
	f.eventually("the service has left its mark, once", func() bool { return f.mark("runs") == "started\n" })
}

func TestAStartWhoseRestartIsStoppedFails(t *testing.T) {
	f := newFixture(t)
	f.unit("a",
		sleeper+"\nExecStartPre=/bin/sh -c 'test -e $$MARKS/failed && sleep 60; touch $$MARKS/failed; false'\n"+
			"Restart=always\nRestartSec=60")
	f.ctl("start a")
	started := make(chan error, 1)
	go func() { started <- f.Start(context.Background(), "a.service") }()
	f.eventually("the service starts again", func() bool { s, _ := f.Status("a.service"); return s.Sub == "start-pre" })
	f.ok("stop a")
	if err := <-started; err == nil || !f.is("a", Inactive) {
		t.Errorf("the start ended with %v", err)
	}
}

func TestRestartPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		service  string
		restarts bool
		end      State
	}{
		"Restart=no, and it fails":               {"ExecStart=/bin/false", false, Failed},
		"Restart=no, and it succeeds":            {"ExecStart=/bin/true", false, Inactive},
		"Restart=no, but failures are ignored":   {"ExecStart=-/bin/false", false, Inactive},
		"Restart=on-failure, and it succeeds":    {"Restart=on-failure\nExecStart=/bin/true", false, Inactive},
		"Restart=on-failure, and it fails":       {"Restart=on-failure\nExecStart=/bin/false", true, ""},
		"Restart=on-failure, and it is killed":   {"Restart=on-failure\nExecStart=/bin/sh -c 'kill -9 $$$$'", true, ""},
		"Restart=on-success, and it succeeds":    {"Restart=on-success\nExecStart=/bin/true", true, ""},
		"Restart=on-success, and it fails":       {"Restart=on-success\nExecStart=/bin/false", false, Failed},
		"Restart=on-abnormal, and it fails":      {"Restart=on-abnormal\nExecStart=/bin/false", false, Failed},
		"Restart=always, and it ends by SIGTERM": {"Restart=always\nExecStart=/bin/sh -c 'kill $$$$'", true, ""},
		"Restart=no, and it ends by SIGTERM":     {"ExecStart=/bin/sh -c 'kill $$$$'", false, Inactive},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.unit("a", c.service+"\nRestartSec=10ms")
			f.ok("start a")
			if c.restarts {
				f.eventually("the unit restarts", func() bool { s, _ := f.Status("a.service"); return s.Restarts >= 2 })
				return
			}
			f.eventually("the service ends", func() bool { return f.is("a", c.end) })
			if s, _ := f.Status("a.service"); s.Restarts != 0 {
				t.Errorf("the service was restarted %d times", s.Restarts)
			}
		})
	}
}
