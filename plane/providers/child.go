package providers

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/process"
)

// ProcessEndedEvent of a Deployment: the process that the plane runs for it exited and is started again.
const ProcessEndedEvent = "ProcessEnded"

const (
	// startTimeout bounds how long a process may take to answer its readiness probe.
	startTimeout = 2 * time.Minute
	// steady is how long a process must have been there for its end to count as a first one.
	steady = 30 * time.Second
	// firstPause and mostPause bound the pause after a process that never worked; each doubles it.
	firstPause = time.Second
	mostPause  = 30 * time.Second
	// messageLimit bounds what a status or an Event says, in bytes, but for a few.
	messageLimit = 900
)

// child is a process that is kept, until stop.
type child struct {
	fingerprint string
	cancel      context.CancelFunc
	done        chan struct{}

	told func(state)                // keeps a state, and has it reported
	died func(error, time.Duration) // is told that the process has ended, and the pause until the next one

	mu    sync.Mutex
	state state
}

// start starts the process of a Deployment; nil if the plane ends.
func (r *reconciler) start(d *appsv1.Deployment, s *setting) *child {
	key := client.ObjectKeyFromObject(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // it outlives the request
	c := &child{
		fingerprint: s.fingerprint, cancel: cancel, done: make(chan struct{}),
		state: state{problem: "the process is being started"},
	}
	r.running[key] = c
	p := process.Process{
		Name: "provider " + key.String(), Path: s.binary, Args: append([]string{s.binary}, s.args...), Env: s.env, Dir: s.dir,
		Log: filepath.Join(r.Logs, "provider-"+key.Namespace+"-"+key.Name+".log"), Files: r.Files, Grace: r.Grace,
		StartTimeout: startTimeout,
	}
	if s.ready != nil {
		p.Probe = s.ready.ask
	}
	c.told = func(now state) {
		c.mu.Lock()
		c.state = now
		c.mu.Unlock()
		select {
		case r.happened <- event.GenericEvent{Object: d}:
		default: // looked at soon anyway
		}
	}
	c.died = func(err error, pause time.Duration) {
		problem := limited(err.Error())
		c.told(state{problem: problem})
		r.recorder.Eventf(d, nil, corev1.EventTypeWarning, ProcessEndedEvent, "Restart", "%s",
			limited(fmt.Sprintf("it is started again in %s: %s", pause, problem)))
	}
	go func() {
		defer close(c.done)
		c.keep(ctx, p, s)
	}()
	return c
}

// keep runs the process until ctx ends. Unlike one of the plane's own, a provider that has never worked is tried again,
// too: what it needs may come.
func (c *child) keep(ctx context.Context, p process.Process, s *setting) {
	pauses := backoff.Backoff{First: firstPause, Max: mostPause, Healthy: steady}
	for {
		began := time.Now()
		err := c.live(ctx, p, s)
		if ctx.Err() != nil {
			return
		}
		pause := pauses.After(time.Since(began))
		c.died(err, pause)
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// live runs the process, and again when it ends by itself, until ctx ends, it has never worked, or its liveness probe
// fails. The error says which, but for the first.
func (c *child) live(ctx context.Context, p process.Process, s *setting) error {
	run, end := context.WithCancelCause(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer end(nil)
	stop := context.CancelFunc(func() {}) // ends the probes of the process that runs
	err := p.Keep(run, backoff.Backoff{}, process.Watch{
		Ready: func() {
			var works context.Context
			works, stop = context.WithCancel(run)
			c.told(state{ready: true})
			probes.Go(func() {
				s.ready.watch(works, func(err error) bool {
					if err == nil {
						c.told(state{ready: true})
					} else {
						c.told(state{problem: limited("its readiness probe fails: " + err.Error())})
					}
					return true
				})
			})
			probes.Go(func() {
				s.live.watch(works, func(err error) bool {
					if err != nil {
						end(fmt.Errorf("it was ended, because its liveness probe has failed %d times: %w", s.live.threshold, err))
					}
					return err == nil
				})
			})
		},
		Died: func(err error, pause time.Duration) {
			stop()
			c.died(err, pause)
		},
	})
	stop()
	return cmp.Or(err, context.Cause(run))
}

// stop ends the process, and returns when it is gone.
func (c *child) stop() {
	c.cancel()
	<-c.done
}

func (c *child) now() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// limited is a text that is not too long: its beginning, which says what has happened, and its end, where the reason
// is.
func limited(text string) string {
	if len(text) <= messageLimit {
		return text
	}
	return strings.ToValidUTF8(text[:messageLimit/4]+" ... "+text[len(text)-messageLimit*3/4:], "")
}
