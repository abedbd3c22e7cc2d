package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/handover"
	"github.com/capstan-dev/capstan/agent/metrics"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/agent/token"
	"github.com/capstan-dev/capstan/agent/upgrade"
	"github.com/capstan-dev/capstan/agent/work"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// agent holds the state that the parts of a running agent share.
type agent struct {
	config  config.Config
	version string
	client  *rest.Client
	tokens  *token.Keeper
	report  *report.Reporter
	epochs  *epochs
	upgrade *upgrading
	metrics *metrics.Metrics
	log     *slog.Logger
}

// Run runs the agent with the configuration at path until ctx ends, and then returns nil. version is the agent's
// version. The agent serves metrics at metricsAddress, or none if it is empty. Only one agent can run per state
// directory.
func Run(ctx context.Context, path, version, metricsAddress string, log *slog.Logger) error {
	c, err := config.Read(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("creating the state directory: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	trial := upgrade.OnTrial()
	args := []string{"--config", path}
	if metricsAddress != "" {
		args = append(args, "--metrics-bind-address", metricsAddress)
	}
	counts := metrics.New(version, metricsAddress)
	for {
		u := newUpgrading(version, program, trial)
		next, err := runLocked(ctx, c.StateDir, path, u, counts, log)
		switch {
		case err != nil:
			return err
		case next.candidate != nil:
			if err := replace(ctx, next.candidate, args, log); err != nil {
				return err
			}
		case !next.moved:
			return nil
		}
	}
}

// ending says why an agent has stopped: ctx ended, or there is something to do next.
type ending struct {
	moved     bool               // the host belongs to another management cluster now
	candidate *upgrade.Candidate // to try in place of this agent
}

// runLocked calls runEnrolled while it holds the lock of the state directory.
func runLocked(
	ctx context.Context, dir, path string, u *upgrading, m *metrics.Metrics, log *slog.Logger,
) (ending, error) {
	unlock, err := lock(filepath.Join(dir, "agent.lock"))
	if err != nil {
		return ending{}, err
	}
	defer unlock()
	return runEnrolled(ctx, path, u, m, log)
}

// runEnrolled works for one management cluster until ctx ends, the host has moved to another management cluster, or
// there is another agent to try.
func runEnrolled(
	ctx context.Context, path string, u *upgrading, m *metrics.Metrics, log *slog.Logger,
) (ending, error) {
	version := u.version
	c, store, err := enrolled(path)
	if err != nil {
		return ending{}, err
	}
	if err := store.Tidy(c); err != nil {
		return ending{}, fmt.Errorf("removing old tokens: %w", err)
	}
	tokens, err := token.Open(c.TokenPath(), func() (string, error) {
		now, _, err := enrolled(path)
		if now.Server != c.Server || now.CAData != c.CAData {
			return "", err // send a token only to its own management cluster
		}
		return now.Token, err
	})
	if err != nil {
		return ending{}, err
	}
	client, err := rest.New(c, tokens, version)
	if err != nil {
		return ending{}, err
	}
	defer client.Close()
	a := &agent{
		config: c, version: version, client: client, tokens: tokens, report: report.New(client.ApplyReport, log),
		epochs: newEpochs(), upgrade: u, metrics: m, log: log,
	}
	m.Report(a.report.Get)
	log.Info("the agent is starting", "version", version, "host", c.Namespace+"/"+c.Host, "server", c.Server)
	follower := handover.New(handover.Options{
		Config: c, Version: version, Store: store, Source: client, Report: a.report, Log: log,
	})
	if err := a.enroll(ctx); err != nil {
		return ending{}, nil // ctx ended
	}
	next := a.serve(ctx, follower)
	log.Info("the agent is stopping", "moved", next.moved, "upgrade", next.candidate != nil)
	return next, nil
}

// enrolled returns the effective configuration: the one in the file at path, unless the host has moved since the file
// was written. If the host has moved, the result is the configuration for the new management cluster.
func enrolled(path string) (config.Config, handover.Store, error) {
	c, err := config.Read(path)
	if err != nil {
		return c, handover.Store{}, err
	}
	store := handover.NewStore(c)
	current, err := store.Current()
	if err == nil && current != nil {
		c = store.Config(current)
	}
	return c, store, err
}

// enroll collects the facts of the host for the report. It retries until it succeeds or ctx ends, because the network
// may come up after the agent.
func (a *agent) enroll(ctx context.Context) error {
	pauses := backoff.Backoff{Spread: backoff.FleetSpread}
	for {
		err := a.collect()
		if err == nil {
			return nil
		}
		a.log.Warn("collecting the facts of the host failed", "error", err)
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// serve runs all parts until ctx ends or one of them returns something to do next.
func (a *agent) serve(ctx context.Context, f *handover.Follower) (next ending) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	w := work.New(a.config, a.client, a.report, a.metrics, a.log)
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){
		a.report.Run, a.beat, a.renew, a.comeBack, w.Run, func(ctx context.Context) { a.watch(ctx, w, f) },
		func(ctx context.Context) { a.metrics.Serve(ctx, a.log) },
	} {
		parts.Go(func() { part(ctx) })
	}
	parts.Go(func() {
		if next.moved = f.Run(ctx); next.moved {
			end()
		}
	})
	parts.Go(func() {
		if next.candidate = a.upgrade.next(ctx, a); next.candidate != nil {
			end()
		}
	})
	parts.Wait()
	if next.moved {
		next.candidate = nil // it belongs to the plane that the host has left
	}
	return next
}

// watch watches the host until ctx ends.
func (a *agent) watch(ctx context.Context, w *work.Worker, f *handover.Follower) {
	pauses := backoff.Backoff{First: 300 * time.Millisecond, Max: 10 * time.Second, Spread: backoff.FleetSpread}
	for ctx.Err() == nil {
		began := time.Now()
		f.Unsee()
		err := a.client.WatchHost(ctx, func(host *v1beta2.CapstanHost) {
			if host != nil {
				a.report.Seen(host.Status.Agent)
			}
			a.epochs.see(host)
			a.upgrade.see(host)
			w.See(host)
			f.See(host)
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.log.Warn("the watch ended", "error", err, "advice", advice(err))
		}
		if time.Since(began) > time.Minute {
			pauses.Reset()
		}
		if pauses.Wait(ctx) != nil {
			return
		}
		a.metrics.Reconnects()
	}
}

// bundleVersions returns the bundles for the report, which holds at most 64.
func bundleVersions(dir string) ([]string, error) {
	versions, err := bundle.Versions(dir)
	return versions[:min(len(versions), 64)], err
}

// lock makes sure that only one agent runs. The kernel releases the lock when the process exits.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another agent runs on this host: it holds %s; stop it first", path)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
