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
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/agent/retry"
	"github.com/capstan-dev/capstan/agent/token"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// agent holds what the parts of a running agent share.
type agent struct {
	config  config.Config
	version string
	client  *rest.Client
	tokens  *token.Keeper
	report  *reporter
	log     *slog.Logger
}

// Run runs the agent of a version with the configuration at path until ctx ends, which is not an error. There is one agent for each state directory.
func Run(ctx context.Context, path, version string, log *slog.Logger) error {
	c, err := config.Read(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	unlock, err := lock(filepath.Join(c.StateDir, "agent.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	tokens, err := token.Open(c.TokenPath(), func() (string, error) {
		now, err := config.Read(path)
		return now.Token, err
	})
	if err != nil {
		return err
	}
	client, err := rest.New(c, tokens, version)
	if err != nil {
		return err
	}
	defer client.Close()
	a := &agent{config: c, version: version, client: client, tokens: tokens, report: newReporter(client.ApplyReport, log), log: log}
	log.Info("the agent starts", "version", version, "host", c.Namespace+"/"+c.Host, "server", c.Server)
	if err := a.enroll(ctx); err != nil {
		return nil // ctx ended
	}
	a.serve(ctx)
	log.Info("the agent ends")
	return nil
}

// enroll finds out what the host is. The network may come up after the agent, so it is tried until it works or ctx ends.
func (a *agent) enroll(ctx context.Context) error {
	var pauses retry.Pauses
	for {
		err := a.collect()
		if err == nil {
			return nil
		}
		a.log.Warn("the host can't be looked at", "error", err)
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// serve runs all parts until ctx ends, and returns when all have ended.
func (a *agent) serve(ctx context.Context) {
	w := newWorker(a)
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){a.report.run, a.beat, a.renew, w.run, func(ctx context.Context) { a.watch(ctx, w.see) }} {
		parts.Go(func() { part(ctx) })
	}
	parts.Wait()
}

// watch watches the host until ctx ends.
func (a *agent) watch(ctx context.Context, see func(*v1beta2.CapstanHost)) {
	pauses := retry.Pauses{First: 300 * time.Millisecond, Most: 10 * time.Second}
	for ctx.Err() == nil {
		began := time.Now()
		err := a.client.WatchHost(ctx, func(host *v1beta2.CapstanHost) {
			if host != nil {
				a.report.seen(host.Status.Agent)
			}
			see(host)
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.log.Warn("the watch ended", "error", err)
		}
		if time.Since(began) > time.Minute {
			pauses.Reset()
		}
		if pauses.Wait(ctx) != nil {
			return
		}
	}
}

// bundleVersions lists the bundles for the report, which holds 64.
func bundleVersions(dir string) ([]string, error) {
	versions, err := bundle.Versions(dir)
	return versions[:min(len(versions), 64)], err
}

// lock makes sure that there is one agent only. The lock ends with the process.
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
