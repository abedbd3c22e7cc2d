package agent

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/agent/facts"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/agent/work"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// beatPause is the time between two heartbeats, varied by up to a tenth.
const beatPause = 10 * time.Second

// beat renews the Lease until ctx ends, and occasionally checks whether the facts have changed.
func (a *agent) beat(ctx context.Context) {
	failed := backoff.Backoff{First: time.Second, Max: beatPause, Spread: backoff.FleetSpread}
	for n := 1; ; n++ {
		pause := backoff.Jitter(beatPause, 0.1)
		if err := a.client.Beat(ctx, time.Now()); err != nil {
			if ctx.Err() != nil {
				return
			}
			a.log.Warn("the heartbeat failed", "error", err)
			pause = failed.Next()
		} else {
			failed.Reset()
			a.upgrade.beaten()
		}
		if n%6 == 0 {
			if err := a.collect(); err != nil {
				a.log.Warn("collecting the facts of the host failed", "error", err)
			}
		}
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// collect updates the facts in the report.
func (a *agent) collect() error {
	found, err := facts.Collect(a.config.Server, a.config.Local)
	if err != nil {
		return err
	}
	versions, err := bundleVersions(a.config.BundlesDir)
	if err != nil {
		return err
	}
	carries := work.Carries(a.config.JournalDir())
	a.report.Update(true, func(r *v1beta2.AgentReport) {
		found.Carries = carries
		found.Bootstrap, found.Cleaning, found.HandOver = r.Bootstrap, r.Cleaning, r.HandOver
		found.Epoch = a.tokenEpoch()
		found.Version, found.KubernetesVersions = report.Cut(a.version, report.VersionLimit), report.Versions(versions)
		*r = found
	})
	return nil
}
