package work

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/agent/baseline"
	"github.com/capstan-dev/capstan/agent/clean"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// baselineFile is the name of the baseline in the journal's directory.
const baselineFile = "baseline.gz"

// Keys of the notes that this file writes to the journal of a claim.
const (
	// keyTaken is the key of the digest of the baseline taken before the bootstrap.
	keyTaken = "baseline"
	// keyCompared is the key of the digest of the baseline with which the host was compared after the claim.
	keyCompared = "compared"
)

// last returns the last note with a key; empty if there is none.
func last(v *journal.View, key string) string {
	if notes := v.Notes(key); len(notes) > 0 {
		return notes[len(notes)-1]
	}
	return ""
}

// takeBaseline takes a baseline of the host before the bootstrap if the claim asks for one, and waits until the
// management cluster has the digest. It takes none if an earlier version of the agent has already begun the bootstrap
// without a baseline.
func (w *Worker) takeBaseline(
	ctx context.Context, claim v1beta2.HostClaim, j *journal.Journal, step func(string),
) error {
	if claim.Proof != v1beta2.ProofCompare || j.Began() && last(&j.View, keyTaken) == "" {
		return nil
	}
	step("baseline")
	digest, err := w.lookAt().Take(ctx, filepath.Join(j.Dir(), baselineFile))
	if err != nil {
		return err
	}
	failpoint.Hit("baseline taken")
	if last(&j.View, keyTaken) != digest {
		if err := j.Note(keyTaken, digest); err != nil {
			return err
		}
	}
	step("baseline")
	pauses := backoff.Backoff{First: 20 * time.Millisecond, Max: time.Second}
	for began := time.Now(); ; {
		if host := w.latest.Load(); host != nil && host.Spec.Claim != nil &&
			host.Spec.Claim.ProviderID == claim.ProviderID && host.Spec.Claim.Baseline == digest {
			return nil
		}
		if time.Since(began) > dataLimit {
			return fmt.Errorf("the management cluster did not record the digest of the host's baseline within %s", dataLimit)
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// lookAt returns the host to examine. It excludes the agent's own files and what cleaning deletes or reports anyway.
func (w *Worker) lookAt() baseline.Host {
	return baseline.Host{
		Root: "/", Shared: w.config.Local,
		Own: append([]string{w.config.StateDir, "/var/log/capstan"}, clean.Directories()...),
	}
}

// comparison returns how to compare the host after a claim, or nil if the claim does not ask for it.
func (w *Worker) comparison(claim v1beta2.HostClaim, j *journal.Journal) *clean.Comparison {
	if claim.Proof != v1beta2.ProofCompare || claim.ProviderID != j.Claim() {
		return nil
	}
	return w.compareWith(claim.Baseline, j)
}

// compareWith returns how to compare the host with the baseline that has this digest; nil if digest is empty.
func (w *Worker) compareWith(digest string, j *journal.Journal) *clean.Comparison {
	if digest == "" {
		return nil
	}
	host := w.lookAt()
	if latest := w.latest.Load(); latest != nil {
		host.Packages = latest.Spec.Cleaning.Packages != v1beta2.PackagesDeny
	}
	return &clean.Comparison{
		Host: host, Path: filepath.Join(j.Dir(), baselineFile), Digest: digest,
		Done: func() error { return j.Note(keyCompared, digest) },
	}
}
