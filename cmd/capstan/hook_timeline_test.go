package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/describe"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/runtime/record"
)

// journal returns an app whose record of calls has one call that let a Cluster pass and one that blocks it.
func journal(t *testing.T) (a *app, out *bytes.Buffer, add func(record.Call)) {
	t.Helper()
	out = &bytes.Buffer{}
	a = &app{home: home.Dir(t.TempDir()), namespace: "default", out: out, err: out}
	if err := os.MkdirAll(filepath.Dir(a.home.Hooks()), 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := record.Open(a.home.Hooks(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	add = func(c record.Call) {
		c.Time, c.Extension, c.Object = time.Now(), "ext", record.Object{Kind: "Cluster", Namespace: "default", Name: "blue"}
		if err := j.Append(c); err != nil {
			t.Fatal(err)
		}
	}
	add(record.Call{Hook: "g/v1/BeforeClusterCreate", Handler: "capacity", Answer: record.Success})
	add(record.Call{
		Hook: "g/v1/BeforeClusterUpgrade", Handler: "window", Answer: record.Blocked, RetryAfter: 30 * time.Second,
		Message: "closed until 22:00",
	})
	return a, out, add
}

func TestTimelineShowsWhatIsBlocked(t *testing.T) {
	for format, wants := range map[string][]string{
		"table": {"BeforeClusterCreate", "Blocked now:", "default/blue", "ext/window", "closed until 22:00",
			"asked again within 30s", "capstan hook unblock blue BeforeClusterUpgrade"},
		"json": {`"calls"`, `"blocked"`, `"since"`, "closed until 22:00", `"goesOnWhen"`, `"unblock"`},
	} {
		t.Run(format, func(t *testing.T) {
			a, out, _ := journal(t)
			cmd := a.hookTimelineCommand()
			cmd.SetArgs([]string{"blue", "-o", format})
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			for _, want := range wants {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the timeline lacks %q:\n%s", want, out)
				}
			}
			var shown describe.Timeline
			if err := json.Unmarshal(out.Bytes(), &shown); format == "json" &&
				(err != nil || len(shown.Calls) != 2 || len(shown.Blocked) != 1) {
				t.Errorf("the parsed timeline is %+v, error %v", shown, err)
			}
		})
	}
}

// lines sends each line that is written to it.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

func TestTimelineGoesOn(t *testing.T) {
	a, _, add := journal(t)
	got := make(lines)
	a.out = got
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- a.watchTimeline(ctx, "blue", "table") }()
	next := func() string {
		select {
		case line := <-got:
			return line
		case <-ctx.Done():
			t.Fatal("no further line was printed")
			return ""
		}
	}
	wants := func(when string, wants ...string) {
		t.Helper()
		line := next()
		for _, want := range wants {
			if !strings.Contains(line, want) {
				t.Errorf("%s: the printed line lacks %q: %q", when, want, line)
			}
		}
	}
	wants("the first earlier call", "BeforeClusterCreate", "Success")
	wants("the second earlier call", "BeforeClusterUpgrade", "Blocked")
	wants("the block at the beginning", "default/blue is blocked since", "ext/window at BeforeClusterUpgrade",
		"asked again within 30s", "capstan hook unblock blue BeforeClusterUpgrade")
	add(record.Call{Hook: "g/v1/BeforeClusterUpgrade", Handler: "window", Answer: record.Blocked, RetryAfter: time.Second})
	wants("a call that blocks again", "Blocked")
	add(record.Call{Hook: "g/v1/BeforeClusterUpgrade", Handler: "window", Answer: record.Success, Message: "open"})
	wants("a call that lets it through", "Success", "open")
	wants("the end of the block", "default/blue goes on: ext/window held it at BeforeClusterUpgrade for")
	add(record.Call{
		Hook: "g/v1/AfterClusterUpgrade", Handler: "verify", Answer: record.Failure, Err: errors.New("no route"),
	})
	wants("a call that fails", "Failure", "no route")
	wants("another block", "default/blue is blocked since", "ext/verify at AfterClusterUpgrade", "a call succeeds")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
