package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/bootstrap"
	"github.com/capstan-dev/capstan/agent/clean"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/agent/retry"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// dataLimit is how long to wait for the bootstrap data of a claim. It follows the claim within milliseconds, unless the management cluster
// is restarted just then.
const dataLimit = 15 * time.Minute

// worker does one task at a time: what the host asks for now. A task that is not asked for any more is ended before the next one starts.
type worker struct {
	agent *agent
	hosts chan *v1beta2.CapstanHost // the newest state only
}

func newWorker(a *agent) *worker {
	return &worker{agent: a, hosts: make(chan *v1beta2.CapstanHost, 1)}
}

// see hands the worker the present state of the host; nil if it was deleted. Only one goroutine may call it.
func (w *worker) see(host *v1beta2.CapstanHost) {
	select {
	case <-w.hosts:
	default:
	}
	w.hosts <- host
}

// job is a task that is being done.
type job struct {
	task   task
	cancel context.CancelFunc
	ended  chan struct{}
}

// done returns the channel that is closed when the job has ended; no job never ends.
func (j *job) done() <-chan struct{} {
	if j == nil {
		return nil
	}
	return j.ended
}

func (j *job) stop() {
	j.cancel()
	<-j.ended
}

// run does what the host asks for until ctx ends.
func (w *worker) run(ctx context.Context) {
	var (
		host    *v1beta2.CapstanHost
		current *job
		held    task             // a task that had no result, or left something
		again   <-chan time.Time // when to try it again
		pauses  = retry.Pauses{First: time.Second, Most: 5 * time.Minute}
	)
	defer func() {
		if current != nil {
			current.stop()
		}
	}()
	for {
		failed := false
		select {
		case <-ctx.Done():
			return
		case host = <-w.hosts:
		case <-again:
			again = nil
		case <-current.done():
			current.cancel()
			current, failed = nil, true // unless the journal says otherwise
		}
		want := wanted(host)
		if current != nil && current.task == want || again != nil && held == want {
			continue
		}
		if current != nil {
			current.stop()
			current = nil
		}
		finished, err := w.finished(want)
		switch {
		case err != nil:
			w.agent.log.Error("the journal can't be used", "error", err)
			fallthrough
		case failed && !finished:
			held, again = want, time.After(pauses.Next())
		case finished:
			again = nil
			pauses.Reset()
		default:
			again = nil
			current = w.start(ctx, want, host)
		}
	}
}

// finished reports whether a task has nothing left to do, and brings the report in line with the journal. Without a claim it removes the
// journals of machines that left the host clean.
func (w *worker) finished(t task) (bool, error) {
	if t.claim == "" {
		return true, w.prune("")
	}
	open := journal.Open
	if t.kind == cleaning {
		open = journal.Salvage
	}
	j, err := open(w.agent.config.JournalDir(), t.claim)
	if err != nil {
		w.trouble(t, err)
		return false, err
	}
	defer j.Close()
	s := state{outcome: j.Outcome()}
	s.cleaned, s.leftovers = j.Cleaned()
	w.agent.report.update(true, func(r *v1beta2.AgentReport) {
		if j.Began() || s.outcome.Ended {
			r.Bootstrap = bootstrapReport(t.claim, s.outcome, "")
		}
		if s.cleaned {
			r.Cleaning = &v1beta2.CleaningReport{ProviderID: t.claim, Done: true, Leftovers: s.leftovers}
		}
	})
	return done(t, s), nil
}

// trouble reports what keeps a task from having a result. Only a damaged journal is the end of a bootstrap: the rest may pass.
func (w *worker) trouble(t task, err error) {
	w.agent.report.update(true, func(r *v1beta2.AgentReport) {
		switch t.kind {
		case cleaning:
			left := cut("unknown: cleaning has no result, "+err.Error(), 512)
			r.Cleaning = &v1beta2.CleaningReport{ProviderID: t.claim, Done: true, Leftovers: []string{left}}
		case bootstrapping:
			o := w.outcome(t.claim)
			if !o.Ended && errors.Is(err, journal.ErrDamaged) {
				o = journal.Outcome{Ended: true, Step: "journal", Message: err.Error()}
			}
			r.Bootstrap = bootstrapReport(t.claim, o, "")
			if !o.Ended {
				r.Bootstrap.Message = cut(err.Error(), 1024)
			}
		}
	})
}

// outcome returns how a bootstrap ended as far as the journal can be read.
func (w *worker) outcome(claim string) journal.Outcome {
	views, _ := journal.Look(w.agent.config.JournalDir())
	for _, v := range views {
		if v.IsOf(claim) {
			return v.Outcome()
		}
	}
	return journal.Outcome{}
}

// prune removes the journals of claims after which the host was proved clean, and of those that never began, apart from one.
func (w *worker) prune(claim string) error {
	views, err := journal.Look(w.agent.config.JournalDir())
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

// start starts a task.
func (w *worker) start(ctx context.Context, t task, host *v1beta2.CapstanHost) *job {
	ctx, cancel := context.WithCancel(ctx)
	j := &job{task: t, cancel: cancel, ended: make(chan struct{})}
	claim := *host.Spec.Claim
	go func() {
		defer close(j.ended)
		w.agent.log.Info("a task starts", "task", t.kind, "claim", t.claim)
		do := w.bootstrap
		if t.kind == cleaning {
			do = w.clean
		}
		if err := do(ctx, claim); err != nil && ctx.Err() == nil {
			w.agent.log.Error("a task has no result", "task", t.kind, "error", err)
			w.trouble(t, err)
			return
		}
		w.agent.log.Info("a task ended", "task", t.kind, "claim", t.claim)
	}()
	return j
}

// bootstrap runs the bootstrap data of a claim.
func (w *worker) bootstrap(ctx context.Context, claim v1beta2.HostClaim) error {
	c := w.agent.config
	j, err := journal.Open(c.JournalDir(), claim.ProviderID)
	if err != nil {
		return err
	}
	defer j.Close()
	step := func(name string) {
		w.agent.report.update(false, func(r *v1beta2.AgentReport) { r.Bootstrap = bootstrapReport(claim.ProviderID, j.Outcome(), name) })
	}
	step("bootstrap data")
	if err := w.prune(claim.ProviderID); err != nil {
		return err
	}
	if others, err := w.unclean(claim.ProviderID); err != nil {
		return err
	} else if len(others) > 0 {
		return j.Fail("bootstrap data", "the host still carries the machine of "+others[0].Claim()+"; release and clean it first")
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
		Journal: j, Log: log, Local: c.Local, BundlesDir: c.BundlesDir, Version: claim.KubernetesVersion, Hostname: claim.Hostname,
		Format: data.Format, Data: data.Value, Metadata: w.metadata(data), Step: step,
	}
	err = b.Run(ctx)
	if errors.Is(err, journal.ErrFull) {
		return j.Fail("journal", err.Error())
	}
	return err
}

// metadata returns the values that the data may refer to: those of the claim and those that only the host knows.
func (w *worker) metadata(data *rest.BootstrapData) map[string]any {
	values := map[string]any{}
	for key, value := range data.Metadata {
		values[key] = value
	}
	w.agent.report.update(false, func(r *v1beta2.AgentReport) { values["local_ipv4"] = r.Address })
	return values
}

// data reads the bootstrap data of a claim. It waits for a server that does not answer, and for a bounded time for data that is not there.
func (w *worker) data(ctx context.Context, claim v1beta2.HostClaim) (*rest.BootstrapData, error) {
	pauses := retry.Pauses{First: 50 * time.Millisecond, Most: 10 * time.Second}
	for began := time.Now(); ; {
		data, err := w.agent.client.BootstrapData(ctx)
		switch {
		case err == nil && data.Instance.ProviderID == claim.ProviderID && len(data.Value) > 0:
			return data, nil
		case err == nil:
			err = errors.New("the bootstrap Secret is of another claim, or empty")
		case !rest.IsCode(err, http.StatusNotFound):
			began = time.Now() // the server decides, once it can be reached
		}
		if time.Since(began) > dataLimit {
			return nil, fmt.Errorf("there is no bootstrap data for this claim within %s; delete the machine to try again", dataLimit)
		}
		w.agent.log.Warn("the bootstrap data can't be read", "error", err)
		if err := pauses.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// unclean lists the journals of other machines that left something on the host.
func (w *worker) unclean(claim string) ([]*journal.View, error) {
	views, err := journal.Look(w.agent.config.JournalDir())
	return slices.DeleteFunc(views, func(v *journal.View) bool { return v.IsOf(claim) || !v.Carries() }), err
}

// clean cleans the host after a claim, and after older ones that were never cleaned. What is left of those counts as left of the claim.
func (w *worker) clean(ctx context.Context, claim v1beta2.HostClaim) error {
	others, err := w.unclean(claim.ProviderID)
	if err != nil {
		return err
	}
	w.agent.report.update(false, func(r *v1beta2.AgentReport) {
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
		left, err := w.cleanOne(ctx, j, nil)
		if err != nil {
			return err
		}
		older = append(older, left...)
	}
	j, err := journal.Salvage(w.agent.config.JournalDir(), claim.ProviderID)
	if err != nil {
		return err
	}
	_, err = w.cleanOne(ctx, j, older)
	return err
}

// cleanOne cleans the host after one claim, closes its journal, and returns what is left.
func (w *worker) cleanOne(ctx context.Context, j *journal.Journal, older []string) ([]string, error) {
	defer j.Close()
	log, err := command.OpenLog(clean.LogPath, bootstrap.LogLimit)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	err = (&clean.Cleaner{Journal: j, Log: log, BundlesDir: w.agent.config.BundlesDir, Older: older}).Run(ctx)
	_, left := j.Cleaned()
	if err == nil && len(left) > 0 {
		w.agent.log.Warn("the host is not clean", "left", strings.Join(left, "; "))
	}
	return left, err
}
