package upgrade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

const (
	// checkPause is the time between two requests for the plane's version.
	checkPause = time.Hour
	// busyPause is the maximum time between two checks of whether the agent may be replaced.
	busyPause = 10 * time.Second
	// nextSuffix and previousSuffix are appended to the program's path to name the new and the previous program.
	nextSuffix     = ".next"
	previousSuffix = ".previous"
	// sayLimit is how long a program may take to print its version.
	sayLimit = 20 * time.Second
)

// Upgrader finds out when to replace the agent.
type Upgrader struct {
	// Config is the agent's configuration; Version and Program are its version and path. Required.
	Config  config.Config
	Version string
	Program string
	// May reports whether the agent may be replaced now: the host's policy allows it, and the agent has no work to do.
	May func() bool
	Log *slog.Logger
}

// Candidate is a downloaded program whose checksum the plane has confirmed.
type Candidate struct {
	// Path is where the program is now, and Program is where it belongs.
	Path, Program string
	// Version is the version that the program reports.
	Version  string
	checksum string
	stateDir string
}

// Next returns a candidate as soon as one may be tried, or nil when ctx ends.
func (u *Upgrader) Next(ctx context.Context) *Candidate {
	if u.Config.Enrolment == "" || u.Config.Local || !newer("v9999.0.0", u.Version) {
		return nil // no plane offers agents, the plane recreates the host, or this is a build by hand
	}
	failed := backoff.Backoff{First: 10 * time.Second, Max: checkPause, Spread: backoff.FleetSpread}
	busy := backoff.Backoff{First: 200 * time.Millisecond, Max: busyPause}
	for {
		var pause time.Duration
		if !u.May() {
			pause = busy.Next()
		} else {
			busy.Reset()
			candidate, err := u.prepare(ctx)
			if candidate != nil {
				return candidate
			}
			if pause = backoff.Jitter(checkPause, 0.2); err != nil {
				pause = failed.Next()
				if ctx.Err() == nil {
					u.Log.Warn("the agent could not be upgraded", "error", err)
				}
			} else {
				failed.Reset()
			}
		}
		if backoff.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// prepare asks the plane once. Both results are nil if there is nothing to do.
func (u *Upgrader) prepare(ctx context.Context) (*Candidate, error) {
	p, err := newPlane(u.Config)
	if err != nil {
		return nil, err
	}
	offered, err := p.version(ctx)
	if err != nil || !newer(offered, u.Version) {
		return nil, err
	}
	checksum, err := p.checksum(ctx)
	if err != nil {
		return nil, err
	}
	before, err := readRecord(u.Config.StateDir)
	if err != nil || !before.due(checksum, time.Now()) {
		return nil, err
	}
	c := &Candidate{Path: u.Program + nextSuffix, Program: u.Program, checksum: checksum, stateDir: u.Config.StateDir}
	u.Log.Info("fetching the later agent of the plane", "version", offered)
	if err := p.fetch(ctx, c.Path, checksum); err != nil {
		return nil, fmt.Errorf("fetching the agent: %w", err)
	}
	failpoint.Hit("agent fetched")
	if c.Version, err = said(ctx, c.Path); err != nil {
		return nil, err
	}
	if !newer(c.Version, u.Version) {
		return nil, fmt.Errorf("the plane offers agent %s, but the program is %s: build the plane and the agent together",
			offered, c.Version)
	}
	if !u.May() {
		return nil, nil
	}
	return c, nil
}

// said runs a program and returns the version that it prints, which also proves that the program runs on this computer.
func said(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sayLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("the fetched agent can't run: %w", err)
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "capstan-agent ")
	if !ok || len(version) > 128 {
		return "", errors.New("the fetched program is not an agent")
	}
	return version, nil
}
