package providers

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/internal/process"
)

const (
	// startTimeout bounds how long a process may take to answer its readiness probe.
	startTimeout = 2 * time.Minute
	// probeTimeout bounds one question.
	probeTimeout = 5 * time.Second
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
	c := &child{fingerprint: s.fingerprint, cancel: cancel, done: make(chan struct{}), state: state{problem: "the process is being started"}}
	r.running[key] = c
	p := process.Process{
		Name: "provider " + key.String(), Path: s.binary, Args: append([]string{s.binary}, s.args...), Env: s.env, Dir: s.dir,
		Log: filepath.Join(r.Logs, "provider-"+key.Namespace+"-"+key.Name+".log"), Files: r.Files, Grace: r.Grace, StartTimeout: startTimeout,
	}
	if s.probe != "" {
		p.Probe = func(ctx context.Context) error { return ask(ctx, s.probe) }
	}
	told := func(now state) {
		c.mu.Lock()
		c.state = now
		c.mu.Unlock()
		select {
		case r.happened <- event.GenericEvent{Object: d}:
		default: // looked at soon anyway
		}
	}
	go func() {
		defer close(c.done)
		c.keep(ctx, p, process.Watch{
			Ready: func() { told(state{ready: true}) },
			Died: func(err error, pause time.Duration) {
				problem := limited(fmt.Sprintf("%v", err))
				told(state{problem: problem})
				r.recorder.Eventf(d, nil, corev1.EventTypeWarning, "ProcessEnded", "Restart", "%s", limited(fmt.Sprintf("it is started again in %s: %s", pause, problem)))
			},
		})
	}()
	return c
}

// keep runs the process until ctx ends. Unlike one of the plane's own, a provider that has never worked is tried again, too: what it needs may come.
func (c *child) keep(ctx context.Context, p process.Process, w process.Watch) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := p.Keep(ctx, process.Backoff{}, w)
		if err == nil {
			return
		}
		w.Died(err, pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
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

// ask fails unless a readiness probe says yes. As for a kubelet, it doesn't matter who vouches for the certificate.
func ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode >= 400 {
		return fmt.Errorf("%s says %s", url, answer.Status)
	}
	return nil
}

// limited is a text that is not too long: its beginning, which says what has happened, and its end, where the reason is.
func limited(text string) string {
	if len(text) <= messageLimit {
		return text
	}
	return strings.ToValidUTF8(text[:messageLimit/4]+" ... "+text[len(text)-messageLimit*3/4:], "")
}
