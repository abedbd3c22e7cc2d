package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"syscall"

	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/agent/upgrade"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// upgrading knows when the agent may be replaced, and when an agent on trial has passed.
type upgrading struct {
	version, program string
	trial            *upgrade.Trial // nil: not on trial

	mu      sync.Mutex
	allowed bool // whether the host's policy, as last seen, allows it
	beat    bool // a heartbeat was accepted
	shown   bool // the management cluster shows this version's report
}

func newUpgrading(version, program string, trial *upgrade.Trial) *upgrading {
	return &upgrading{version: version, program: program, trial: trial}
}

// see records what the watch shows; nil if the host was deleted.
func (u *upgrading) see(host *v1beta2.CapstanHost) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.allowed = host != nil && host.Spec.AgentUpgrade != v1beta2.AgentUpgradeManual
	if host != nil && host.Status.Agent != nil {
		u.shown = u.shown || host.Status.Agent.Version == report.Cut(u.version, report.VersionLimit)
	}
	u.pass()
}

// beaten records that a heartbeat was accepted.
func (u *upgrading) beaten() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.beat = true
	u.pass()
}

func (u *upgrading) pass() {
	if u.beat && u.shown {
		u.trial.Passed()
	}
}

// may reports whether the agent may be replaced now: the policy allows it, the agent has reported, and it has no work.
// Stopping it would always be safe, but would make its work take longer.
func (u *upgrading) may(r v1beta2.AgentReport) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	bootstraps := r.Bootstrap != nil && r.Bootstrap.Phase == v1beta2.BootstrapRunning
	cleans := r.Cleaning != nil && !r.Cleaning.Done
	return u.allowed && u.beat && u.shown && !bootstraps && !cleans && r.HandOver == nil
}

// next returns an agent to try in place of this one, or nil when ctx ends.
func (u *upgrading) next(ctx context.Context, a *agent) *upgrade.Candidate {
	if u.trial != nil {
		return nil // the previous agent ends the trial, whatever the result
	}
	upgrader := upgrade.Upgrader{
		Config: a.config, Version: u.version, Program: u.program, Log: a.log,
		May: func() bool { return u.may(a.report.Get()) },
	}
	return upgrader.Next(ctx)
}

// replace tries another agent, with these arguments, in place of this one. If the trial passes, replace does not
// return, because the new agent takes over this process.
func replace(ctx context.Context, c *upgrade.Candidate, args []string, log *slog.Logger) error {
	err := upgrade.Try(ctx, c, args, upgrade.TrialLimit, log)
	if err == nil && ctx.Err() == nil {
		log.Info("the agent is replaced", "version", c.Version)
		if err := syscall.Exec(c.Program, append([]string{c.Program}, args...), syscall.Environ()); err != nil {
			return fmt.Errorf("executing agent %s: %w", c.Version, err)
		}
	}
	if ctx.Err() == nil {
		log.Warn("this agent keeps running", "error", err)
	}
	return nil
}
