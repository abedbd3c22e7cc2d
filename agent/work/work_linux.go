package work

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/metrics"
	"github.com/capstan-dev/capstan/agent/report"
	"github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// Worker does one task at a time: whatever the host currently asks for. It stops a task that the host no longer asks
// for before it starts the next one.
type Worker struct {
	config config.Config
	client Data
	report *report.Reporter
	log    *slog.Logger
	counts *metrics.Metrics
	hosts  chan *v1beta2.CapstanHost // holds only the newest state
	latest atomic.Pointer[v1beta2.CapstanHost]
}

// New returns a Worker that has not seen a host yet. It records metrics in m, which may be nil.
func New(c config.Config, client Data, r *report.Reporter, m *metrics.Metrics, log *slog.Logger) *Worker {
	return &Worker{
		config: c, client: client, report: r, counts: m, log: log, hosts: make(chan *v1beta2.CapstanHost, 1),
	}
}

// See passes the current state of the host to the worker; nil if it was deleted. Only one goroutine may call it.
func (w *Worker) See(host *v1beta2.CapstanHost) {
	select {
	case <-w.hosts:
	default:
	}
	w.latest.Store(host)
	w.hosts <- host
}

// job is a running task.
type job struct {
	task   task
	cancel context.CancelFunc
	ended  chan struct{}
}

// done returns a channel that is closed when the job has ended. A nil job yields a nil channel, which blocks forever.
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

// Run does what the host asks for until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	var (
		host    *v1beta2.CapstanHost
		current *job
		held    task             // a task that had no result or left something behind
		again   <-chan time.Time // when to retry it
		pauses  = backoff.Backoff{First: time.Second, Max: 5 * time.Minute, Spread: backoff.FleetSpread}
	)
	defer func() {
		if current != nil {
			current.stop()
		}
	}()
	for {
		var ended *job // the job that has just ended, if any; the journal says whether it has a result
		select {
		case <-ctx.Done():
			return
		case host = <-w.hosts:
		case <-again:
			again = nil
		case <-current.done():
			current.cancel()
			ended, current = current, nil
		}
		want, err := w.next(host)
		if err != nil {
			w.log.Error("the journals can't be read", "error", err)
		}
		if current != nil && current.task == want || again != nil && held == want {
			continue
		}
		if current != nil {
			current.stop()
			current = nil
		}
		finished, err := w.finished(want, host)
		switch {
		case err != nil:
			w.log.Error("the journal can't be used", "error", err)
			fallthrough
		case ended != nil && ended.task == want && !finished:
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

// start starts a task.
func (w *Worker) start(ctx context.Context, t task, host *v1beta2.CapstanHost) *job {
	ctx, cancel := context.WithCancel(ctx)
	j := &job{task: t, cancel: cancel, ended: make(chan struct{})}
	do := func() error { return w.fence(ctx, t.claim) }
	if t.kind != fencing {
		claim := *host.Spec.Claim
		do = func() error { return w.bootstrap(ctx, claim) }
		if t.kind == cleaning {
			do = func() error { return w.clean(ctx, claim) }
		}
	}
	go func() {
		defer close(j.ended)
		w.log.Info("a task starts", "task", t.kind, "claim", t.claim)
		if t.kind == bootstrapping {
			w.counts.Claimed(t.claim)
		}
		began := time.Now()
		err := do()
		if ctx.Err() == nil {
			w.count(t, time.Since(began), err)
		}
		if err != nil && ctx.Err() == nil {
			w.log.Error("a task has no result", "task", t.kind, "error", err)
			w.trouble(t, err)
			return
		}
		w.log.Info("a task finished", "task", t.kind, "claim", t.claim)
	}()
	return j
}
