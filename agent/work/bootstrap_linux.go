package work

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/agent/bootstrap"
	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/enroll"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// dataLimit is how long to wait for the bootstrap data of a claim. Normally the data arrives within milliseconds of the
// claim, unless the management cluster restarts just then.
const dataLimit = 15 * time.Minute

// Data supplies bootstrap data. The agent's implementation asks the API server.
type Data interface {
	// BootstrapData returns the host's current bootstrap data.
	BootstrapData(ctx context.Context) (*rest.BootstrapData, error)
}

// bootstrap runs the bootstrap data of a claim.
func (w *Worker) bootstrap(ctx context.Context, claim v1beta2.HostClaim) error {
	c := w.config
	j, err := journal.Open(c.JournalDir(), claim.ProviderID)
	if err != nil {
		return err
	}
	defer j.Close()
	step := func(name string) {
		taken := last(&j.View, keyTaken)
		w.report.Update(name == "baseline", func(r *v1beta2.AgentReport) {
			r.Bootstrap = bootstrapReport(claim.ProviderID, j.Outcome(), taken, name)
			if j.Carries() {
				r.Carries = claim.ProviderID
			}
		})
	}
	step("bootstrap data")
	if err := w.prune(claim.ProviderID); err != nil {
		return err
	}
	if others, err := w.unclean(claim.ProviderID); err != nil {
		return err
	} else if len(others) > 0 {
		return j.Fail("bootstrap data", "the host still has the machine of "+others[0].Claim()+
			": release that machine and let the agent clean the host before another machine claims it")
	}
	if err := w.provideBundle(ctx, claim, j, step); err != nil || j.Outcome().Ended {
		return err
	}
	if err := w.takeBaseline(ctx, claim, j, step); err != nil {
		return err
	}
	data, err := w.data(ctx, claim)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return j.Fail("bootstrap data", err.Error())
	}
	log, err := command.OpenLog(bootstrap.LogPath, bootstrap.LogLimit)
	if err != nil {
		return err
	}
	defer log.Close()
	b := &bootstrap.Bootstrap{
		Journal: j, Log: log, Local: c.Local, BundlesDir: c.BundlesDir, Version: claim.KubernetesVersion,
		Hostname: claim.Hostname,
		Format:   data.Format, Data: data.Value, Metadata: w.metadata(data), Step: step,
	}
	err = b.Run(ctx)
	if errors.Is(err, journal.ErrFull) {
		return j.Fail("journal", err.Error())
	}
	return err
}

// provideBundle makes sure that the host has the bundle of the claim's version, if it needs one. This happens before
// the baseline is taken: bundles stay for the next machine, so they are part of the host's original state.
func (w *Worker) provideBundle(
	ctx context.Context, claim v1beta2.HostClaim, j *journal.Journal, step func(string),
) error {
	if w.config.Local || j.Began() {
		return nil
	}
	step("bundle")
	source := bundle.Choose(w.config.Bundles, claim.Bundles)
	var err error
	if source.NeedsPlane() {
		source.Plane, err = enroll.Plane(w.config)
	}
	if err == nil {
		err = bundle.Provide(ctx, w.config.BundlesDir, claim.KubernetesVersion, source)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		w.log.Warn("there is no bundle", "version", claim.KubernetesVersion, "error", err)
		return j.Fail("bundle", fault.Text(err, "the bundle is not available; see the agent's log"))
	}
	return nil
}

// metadata returns the values that the data may refer to: those of the claim, and those that only the host knows.
func (w *Worker) metadata(data *rest.BootstrapData) map[string]any {
	values := map[string]any{}
	for key, value := range data.Metadata {
		values[key] = value
	}
	values["local_ipv4"] = w.report.Get().Address
	return values
}

// data reads the bootstrap data of a claim. It waits without limit for a server that does not answer, but only for a
// limited time for missing data.
func (w *Worker) data(ctx context.Context, claim v1beta2.HostClaim) (*rest.BootstrapData, error) {
	pauses := backoff.Backoff{First: 50 * time.Millisecond, Max: 10 * time.Second, Spread: backoff.FleetSpread}
	for began := time.Now(); ; {
		data, err := w.client.BootstrapData(ctx)
		switch {
		case err == nil && data.Instance.ProviderID == claim.ProviderID && len(data.Value) > 0:
			return data, nil
		case err == nil:
			err = errors.New("the bootstrap Secret belongs to another claim, or is empty")
		case !rest.IsCode(err, http.StatusNotFound):
			began = time.Now() // the limit counts only while the server answers
		}
		if time.Since(began) > dataLimit {
			return nil, fmt.Errorf("no bootstrap data for this claim arrived within %s; delete the machine to try again",
				dataLimit)
		}
		w.log.Warn("the bootstrap data can't be read", "error", err)
		if err := pauses.Wait(ctx); err != nil {
			return nil, err
		}
	}
}
