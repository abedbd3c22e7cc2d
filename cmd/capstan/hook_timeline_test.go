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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/runtime/record"
)

// journal gives an app whose journal has one call that was let through, and one that blocks.
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
	add(record.Call{Hook: "g/v1/BeforeClusterUpgrade", Handler: "window", Answer: record.Blocked, RetryAfter: 30 * time.Second, Message: "closed until 22:00"})
	return a, out, add
}

func TestTimelineShowsWhatIsBlocked(t *testing.T) {
	for format, wants := range map[string][]string{
		"table": {"BeforeClusterCreate", "Blocked now:", "default/blue", "ext/window", "closed until 22:00", "asked again within 30s", "capstan hook unblock blue BeforeClusterUpgrade"},
		"json":  {`"calls"`, `"blocked"`, `"since"`, "closed until 22:00", `"goesOnWhen"`, `"unblock"`},
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
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			var shown timeline
			if err := json.Unmarshal(out.Bytes(), &shown); format == "json" && (err != nil || len(shown.Calls) != 2 || len(shown.Blocked) != 1) {
				t.Errorf("read back %+v, %v", shown, err)
			}
		})
	}
}

// lines counts what is written to it, and tells.
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
			t.Fatal("nothing more was printed")
			return ""
		}
	}
	wants := func(when string, wants ...string) {
		t.Helper()
		line := next()
		for _, want := range wants {
			if !strings.Contains(line, want) {
				t.Errorf("%s: it does not say %q: %q", when, want, line)
			}
		}
	}
	wants("what was before", "BeforeClusterCreate", "Success")
	wants("what was before", "BeforeClusterUpgrade", "Blocked")
	wants("what is blocked at the beginning", "default/blue is blocked since", "ext/window at BeforeClusterUpgrade", "asked again within 30s", "capstan hook unblock blue BeforeClusterUpgrade")
	add(record.Call{Hook: "g/v1/BeforeClusterUpgrade", Handler: "window", Answer: record.Blocked, RetryAfter: time.Second})
	wants("a block lasts", "Blocked")
	add(record.Call{Hook: "g/v1/BeforeClusterUpgrade", Handler: "window", Answer: record.Success, Message: "open"})
	wants("a call that lets it through", "Success", "open")
	wants("a block has ended", "default/blue goes on: ext/window held it at BeforeClusterUpgrade for")
	add(record.Call{Hook: "g/v1/AfterClusterUpgrade", Handler: "verify", Answer: record.Failure, Err: errors.New("no route")})
	wants("a call that fails", "Failure", "no route")
	wants("a block has begun", "default/blue is blocked since", "ext/verify at AfterClusterUpgrade", "a call succeeds")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWayOut(t *testing.T) {
	for want, call := range map[string]record.Call{
		"asked again within 5s": {Answer: record.Blocked, RetryAfter: 5 * time.Second},
		"a call succeeds":       {Answer: record.Failure, Err: errors.New("no route")},
		"left alone":            {Answer: record.Failure, NotAsked: true},
	} {
		if got := wayOut(call); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

// TestBlockedNow: a cluster that is gone waits for nothing, and nobody waits for a handler that is not asked any more.
func TestBlockedNow(t *testing.T) {
	cluster := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "there"}}
	extension := func(name string, handlers ...string) runtimev1.ExtensionConfig {
		e := runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, h := range handlers {
			e.Status.Handlers = append(e.Status.Handlers, runtimev1.ExtensionHandler{Name: h + "." + name})
		}
		return e
	}
	counts := counting([]clusterv1.Cluster{cluster}, []runtimev1.ExtensionConfig{extension("e", "h", "other"), extension("new")})
	for name, c := range map[string]struct {
		cluster, extension, handler string
		want                        bool
	}{
		"a handler that is asked":                 {"there", "e", "h", true},
		"a cluster that is gone":                  {"gone", "e", "h", false},
		"an extension that is gone":               {"there", "gone", "h", false},
		"a handler that its extension has lost":   {"there", "e", "gone", false},
		"an extension that nobody has discovered": {"there", "new", "h", true},
	} {
		t.Run(name, func(t *testing.T) {
			call := record.Call{
				Hook: "g/v1/BeforeClusterDelete", Extension: c.extension, Handler: c.handler, Answer: record.Blocked, Object: record.Object{Kind: "Cluster", Namespace: "team", Name: c.cluster},
			}
			got := blockedNow([]record.Call{call}, counts)
			if (len(got) == 1) != c.want {
				t.Fatalf("got %+v", got)
			}
			if c.want && got[0].Unblock != `capstan -n team hook unblock there BeforeClusterDelete --reason "..."` {
				t.Errorf("got %+v", got)
			}
		})
	}
}
