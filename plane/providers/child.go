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

// ProcessEndedEvent is the reason of an Event about a Deployment: the process that the plane runs in place of the
// Deployment's Pods has exited. The plane starts the process again.
const ProcessEndedEvent = "ProcessEnded"

const (
	// startTimeout bounds how long a process may take to answer its readiness probe.
	startTimeout = 2 * time.Minute
	// steady is the time after which the pause starts over: if a process exits after this time, the exit counts as the
	// first one.
	steady = 30 * time.Second
	// firstPause and mostPause bound the pause after a process that never worked; each such exit doubles the pause.
	firstPause = time.Second
	mostPause  = 30 * time.Second
	// messageLimit is the approximate maximum length of the text in a status or an Event, in bytes.
	messageLimit = 900
)

// child is a process that is kept running until stop.
type child struct {
	fingerprint string
	cancel      context.CancelFunc
	done        chan struct{}

	told func(state)                // records a state, and triggers a report of it
	died func(error, time.Duration) // reports that the process has exited, and the pause until the next start

	mu    sync.Mutex
	state state
}

// start starts the process of a Deployment; it returns nil if the plane is stopping.
func (r *reconciler) start(d *appsv1.Deployment, s *setting) *child {
	key := client.ObjectKeyFromObject(d)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background()) // the process outlives the request
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
		default: // the process is checked soon anyway
		}
	}
	c.died = func(err error, pause time.Duration) {
		problem := limited(err.Error())
		c.told(state{problem: problem})
		r.recorder.Eventf(d, nil, corev1.EventTypeWarning, ProcessEndedEvent, "Restart", "%s",
			limited(fmt.Sprintf("the process restarts in %s: %s", pause, problem)))
	}
	go func() {
		defer close(c.done)
		c.keep(ctx, p, s)
	}()
	return c
}

// keep runs the process until ctx ends. Unlike the plane's own processes, it also restarts one that has never worked,
// because what the process needs may appear later.
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

// live runs the process, and restarts it if it exits. It returns when ctx ends, when the process has never worked, or
// when its liveness probe fails. In the last two cases the error says which.
func (c *child) live(ctx context.Context, p process.Process, s *setting) error {
	run, end := context.WithCancelCause(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer end(nil)
	stop := context.CancelFunc(func() {}) // stops the probes of the running process
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
						end(fmt.Errorf("it was stopped because its liveness probe failed %d times: %w", s.live.threshold, err))
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

// stop stops the process, and returns once it is gone.
func (c *child) stop() {
	c.cancel()
	<-c.done
}

func (c *child) now() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// limited shortens a long text to its beginning, which says what happened, and its end, which contains the reason.
func limited(text string) string {
	if len(text) <= messageLimit {
		return text
	}
	return strings.ToValidUTF8(text[:messageLimit/4]+" ... "+text[len(text)-messageLimit*3/4:], "")
}
