package work

import (
	"context"
	"strings"

	"github.com/capstan-dev/capstan/agent/bootstrap"
	"github.com/capstan-dev/capstan/agent/clean"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// clean cleans the host after a claim, and after older claims that were never cleaned. The leftovers of older claims
// count as leftovers of this one.
func (w *Worker) clean(ctx context.Context, claim v1beta2.HostClaim) error {
	others, err := w.unclean(claim.ProviderID)
	if err != nil {
		return err
	}
	w.report.Update(false, func(r *v1beta2.AgentReport) {
		if r.Cleaning == nil || r.Cleaning.ProviderID != claim.ProviderID {
			r.Cleaning = &v1beta2.CleaningReport{ProviderID: claim.ProviderID}
		}
	})
	var older []string
	for _, other := range others {
		j, err := other.Salvage()
		if err != nil {
			return err
		}
		left, err := w.cleanOne(ctx, j, nil, nil)
		if err != nil {
			return err
		}
		older = append(older, left...)
	}
	j, err := journal.Salvage(w.config.JournalDir(), claim.ProviderID)
	if err != nil {
		return err
	}
	_, err = w.cleanOne(ctx, j, older, w.comparison(claim, j))
	return err
}

// fence cleans the host after a machine whose claim ended while the agent was away. It runs before another machine uses
// the host, and before the host counts as free. It compares the host with the agent's own baseline, if there is one. If
// the claim requires a reinstallation of the host, this is reported, even if the host is clean otherwise.
func (w *Worker) fence(ctx context.Context, claim string) error {
	w.report.Update(true, func(r *v1beta2.AgentReport) {
		if r.Cleaning == nil || r.Cleaning.ProviderID != claim {
			r.Cleaning = &v1beta2.CleaningReport{ProviderID: claim}
		}
	})
	j, err := journal.Salvage(w.config.JournalDir(), claim)
	if err != nil {
		return err
	}
	var asked []string
	for _, h := range heldBy(&j.View) {
		if h.Proof == v1beta2.ProofReimage {
			asked = []string{"unknown: a machine with root rights can leave anything behind, so this host must be " +
				"reinstalled after each machine"}
		}
	}
	left, err := w.cleanOne(ctx, j, asked, w.compareWith(last(&j.View, keyTaken), j))
	if err != nil {
		return err
	}
	views, err := journal.Look(w.config.JournalDir())
	w.report.Update(true, func(r *v1beta2.AgentReport) {
		r.Cleaning = &v1beta2.CleaningReport{ProviderID: claim, Done: true, Leftovers: report.Leftovers(left)}
		r.Carries = carried(views)
	})
	return err
}

// cleanOne cleans the host after one claim, closes its journal, and returns the leftovers.
func (w *Worker) cleanOne(
	ctx context.Context, j *journal.Journal, older []string, with *clean.Comparison,
) ([]string, error) {
	defer j.Close()
	log, err := command.OpenLog(clean.LogPath, bootstrap.LogLimit)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	err = (&clean.Cleaner{
		Journal: j, Log: log, BundlesDir: w.config.BundlesDir, Older: older, Comparison: with,
	}).Run(ctx)
	_, left := j.Cleaned()
	if err == nil && len(left) > 0 {
		w.log.Warn("the host is not clean", "left", strings.Join(left, "; "))
	}
	return left, err
}
