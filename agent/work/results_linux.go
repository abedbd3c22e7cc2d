package work

import (
	"errors"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// finished reports whether nothing is left to do for a task, and updates the report from the journal. Without a claim
// it removes the journals of machines that left the host clean.
func (w *Worker) finished(t task, host *v1beta2.CapstanHost) (bool, error) {
	if t.claim == "" {
		return true, w.prune("")
	}
	open := journal.Open
	if t.kind == cleaning || t.kind == fencing {
		open = journal.Salvage
	}
	j, err := open(w.config.JournalDir(), t.claim)
	if err != nil {
		w.trouble(t, err)
		return false, err
	}
	defer j.Close()
	if err := noteHeld(j, host); err != nil && !errors.Is(err, journal.ErrFull) {
		w.trouble(t, err)
		return false, err
	}
	s := state{outcome: j.Outcome()}
	s.cleaned, s.leftovers = j.Cleaned()
	views, err := journal.Look(w.config.JournalDir())
	if err != nil {
		return false, err
	}
	w.report.Update(true, func(r *v1beta2.AgentReport) {
		r.Carries = carried(views)
		if t.kind != fencing && (j.Began() || s.outcome.Ended) {
			r.Bootstrap = bootstrapReport(t.claim, s.outcome, last(&j.View, keyTaken), "")
		}
		if s.cleaned {
			r.Cleaning = &v1beta2.CleaningReport{
				ProviderID: t.claim, Done: true, Leftovers: report.Leftovers(s.leftovers), Baseline: last(&j.View, keyCompared),
			}
		}
	})
	return done(t, s), nil
}

// trouble reports why a task has no result. Only a damaged journal ends a bootstrap; other errors may be temporary.
func (w *Worker) trouble(t task, err error) {
	w.report.Update(true, func(r *v1beta2.AgentReport) {
		switch t.kind {
		case cleaning, fencing:
			left := report.Leftovers([]string{"unknown: cleaning has no result, " + err.Error()})
			r.Cleaning = &v1beta2.CleaningReport{ProviderID: t.claim, Done: true, Leftovers: left}
		case bootstrapping:
			o, taken := w.outcome(t.claim)
			if !o.Ended && errors.Is(err, journal.ErrDamaged) {
				o = journal.Outcome{Ended: true, Step: "journal", Message: err.Error()}
			}
			r.Bootstrap = bootstrapReport(t.claim, o, taken, "")
			if !o.Ended {
				r.Bootstrap.Message = report.Cut(err.Error(), report.MessageLimit)
			}
		}
	})
}

// outcome returns how a bootstrap ended and the digest of the baseline, as far as the journal can be read.
func (w *Worker) outcome(claim string) (o journal.Outcome, baseline string) {
	views, _ := journal.Look(w.config.JournalDir())
	for _, v := range views {
		if v.IsOf(claim) {
			return v.Outcome(), last(v, keyTaken)
		}
	}
	return journal.Outcome{}, ""
}

// count records the result of an attempt at a task in the metrics.
func (w *Worker) count(t task, took time.Duration, err error) {
	switch t.kind {
	case bootstrapping:
		if o, _ := w.outcome(t.claim); o.Ended {
			w.counts.Bootstrapped(took, o.Succeeded)
		}
	case cleaning, fencing:
		views, _ := journal.Look(w.config.JournalDir())
		clean := err == nil && slices.ContainsFunc(views, func(v *journal.View) bool {
			cleaned, left := v.Cleaned()
			return v.IsOf(t.claim) && cleaned && len(left) == 0
		})
		w.counts.Cleaned(took, clean)
	}
}

// prune removes the journals of claims whose bootstrap never began, and of claims after which the host was proved
// clean. It keeps the journal of the given claim.
func (w *Worker) prune(claim string) error {
	views, err := journal.Look(w.config.JournalDir())
	if err != nil {
		return err
	}
	for _, v := range views {
		if v.Carries() || v.IsOf(claim) {
			continue
		}
		if err := v.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// unclean returns the journals of other machines that left something on the host.
func (w *Worker) unclean(claim string) ([]*journal.View, error) {
	views, err := journal.Look(w.config.JournalDir())
	return slices.DeleteFunc(views, func(v *journal.View) bool { return v.IsOf(claim) || !v.Carries() }), err
}
