package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// offered simulates a plane that offers an agent, and a host with agent v1.0.0.
type offered struct {
	version, agent, checksum string // checksum defaults to the checksum of agent
	fetched                  int
	host                     Upgrader
	busy                     bool
}

func offer(t *testing.T, version, agent string) *offered {
	t.Helper()
	o := &offered{version: version, agent: agent}
	sum := sha256.Sum256([]byte(agent))
	o.checksum = hex.EncodeToString(sum[:])
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case enrolment.VersionPath:
			fmt.Fprintf(w, `{"version":%q}`, o.version)
		case enrolment.AgentPath + runtime.GOARCH + enrolment.ChecksumSuffix:
			fmt.Fprintln(w, o.checksum)
		case enrolment.AgentPath + runtime.GOARCH:
			o.fetched++
			_, _ = io.WriteString(w, o.agent)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	program := filepath.Join(t.TempDir(), "capstan-agent")
	if err := os.WriteFile(program, []byte(script("v1.0.0", "exit 1")), 0o755); err != nil {
		t.Fatal(err)
	}
	o.host = Upgrader{
		Config:  config.Config{Enrolment: server.URL, CAData: string(ca), StateDir: t.TempDir()},
		Version: "v1.0.0", Program: program, May: func() bool { return !o.busy },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	return o
}

// script returns an agent that prints a version and then does something.
func script(version, then string) string {
	return "#!/bin/sh\n[ \"$1\" = --version ] && { echo capstan-agent " + version + "; exit; }\n" + then + "\n"
}

func TestPrepare(t *testing.T) {
	for name, c := range map[string]struct {
		version, agent string
		change         func(*testing.T, *offered)
		fail           string
		candidate      bool
	}{
		"a later agent":      {"v1.1.0", script("v1.1.0", ""), nil, "", true},
		"the same version":   {"v1.0.0", script("v1.0.0", "other"), nil, "", false},
		"an earlier version": {"v0.9.0", script("v0.9.0", ""), nil, "", false},
		"a wrong checksum": {"v1.1.0", script("v1.1.0", ""), func(_ *testing.T, o *offered) {
			o.agent += "#"
		}, "checksum", false},
		"no checksum": {"v1.1.0", script("v1.1.0", ""), func(_ *testing.T, o *offered) {
			o.checksum = "-"
		}, "checksum", false},
		"another program":      {"v1.1.0", "#!/bin/sh\necho hello\n", nil, "is not an agent", false},
		"a crashing program":   {"v1.1.0", "#!/bin/sh\nexit 3\n", nil, "can't run", false},
		"another version":      {"v1.1.0", script("v1.0.0", ""), nil, "build the plane and the agent together", false},
		"another architecture": {"v1.1.0", "\x7fELF of another architecture", nil, "can't run", false},
		"an empty program":     {"v1.1.0", "", nil, "can't run", false},
		"work begins while the agent is fetched": {"v1.1.0", script("v1.1.0", ""), func(_ *testing.T, o *offered) {
			o.busy = true
		}, "", false},
		"an agent that has failed twice": {"v1.1.0", script("v1.1.0", ""), func(t *testing.T, o *offered) {
			for range 2 {
				if err := begin(o.host.Config.StateDir, o.checksum, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := offer(t, c.version, c.agent)
			if c.change != nil {
				c.change(t, o)
			}
			got, err := o.host.prepare(t.Context())
			if (got != nil) != c.candidate || (err == nil) != (c.fail == "") ||
				err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Errorf("got %+v, %v", got, err)
			}
			if text, err := os.ReadFile(o.host.Program); err != nil || string(text) != script("v1.0.0", "exit 1") {
				t.Errorf("the program has changed: %q, %v", text, err)
			}
		})
	}
}

// TestAPlaneThatIsAnother: the agent downloads nothing from a plane other than its own, whatever that plane offers.
func TestAPlaneThatIsAnother(t *testing.T) {
	o, other := offer(t, "v1.1.0", script("v1.1.0", "")), offer(t, "v1.1.0", script("v1.1.0", ""))
	o.host.Config.Enrolment = strings.Replace(other.host.Config.Enrolment, "127.0.0.1", "localhost", 1)
	if got, err := o.host.prepare(t.Context()); got != nil || err == nil || other.fetched > 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestTry: only an agent that has reported becomes the program. No process of any other agent keeps running.
func TestTry(t *testing.T) {
	for name, c := range map[string]struct {
		then  string
		limit time.Duration
		fail  string
	}{
		"the agent reports":                 {"echo reported >&3; exec sleep 600", time.Minute, ""},
		"the agent exits at once":           {"exit 0", time.Minute, "before it had reported"},
		"the agent crashes":                 {"kill -SEGV $$", time.Minute, "before it had reported"},
		"the agent reports nonsense":        {"echo hello >&3; exec sleep 600", time.Minute, "before it had reported"},
		"the agent does not report in time": {"trap '' TERM; exec sleep 600", time.Second, "did not report"},
	} {
		t.Run(name, func(t *testing.T) {
			o := offer(t, "v1.1.0", script("v1.1.0", c.then))
			candidate, err := o.host.prepare(t.Context())
			if err != nil || candidate == nil {
				t.Fatal(candidate, err)
			}
			err = Try(t.Context(), candidate, nil, c.limit, o.host.Log)
			if (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Errorf("got %v", err)
			}
			want := "v1.0.0"
			if c.fail == "" {
				want = "v1.1.0"
			}
			if got, err := said(t.Context(), o.host.Program); err != nil || got != want {
				t.Errorf("the program is %s, %v", got, err)
			}
			_, err = os.Stat(o.host.Program + previousSuffix)
			if errors.Is(err, fs.ErrNotExist) != (c.fail != "") {
				t.Errorf("the previous program: %v", err)
			}
		})
	}
}

// TestTryEndsWithTheAgent: an agent that is asked to stop during a trial ends the trial and keeps the program.
func TestTryEndsWithTheAgent(t *testing.T) {
	o := offer(t, "v1.1.0", script("v1.1.0", "exec sleep 600"))
	candidate, err := o.host.prepare(t.Context())
	if err != nil || candidate == nil {
		t.Fatal(candidate, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Try(ctx, candidate, nil, time.Minute, o.host.Log); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got, err := said(t.Context(), o.host.Program); err != nil || got != "v1.0.0" {
		t.Errorf("the program is %s, %v", got, err)
	}
}
