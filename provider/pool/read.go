package pool

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// reading is how far a shard is with the one read of its hosts.
type reading struct {
	read bool
	call *call // nil: nobody reads
	// removed holds the hosts that went away while the hosts were read, and the resourceVersion of their end, or
	// nothing if that isn't known.
	removed map[string]string
}

// call is a read that others wait for.
type call struct {
	done chan struct{}
	err  error
}

// Read makes sure that the hosts of a namespace were read from the API server once, and not from its cache. A watch may
// begin behind what an earlier process did last. Read must not be called before the watch has begun.
func (p *Pool) Read(ctx context.Context, namespace string) error {
	s := p.in(namespace)
	switch {
	case s.read:
		s.leave()
		return nil
	case s.call != nil:
		running := s.call
		s.leave()
		select {
		case <-running.done:
			return running.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	running := &call{done: make(chan struct{})}
	s.call, s.removed = running, map[string]string{}
	s.leave()

	list := &infrav1.CapstanHostList{}
	if err := p.reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		running.err = fmt.Errorf("listing hosts: %w", err)
	}
	s.mu.Lock()
	defer s.leave()
	if running.err == nil {
		for i := range list.Items {
			s.merge(&list.Items[i])
		}
		s.read = true
	}
	s.call, s.removed = nil, nil
	close(running.done)
	return running.err
}

// merge takes note of a host that was read, unless it went away in the meantime.
func (s *shard) merge(host *infrav1.CapstanHost) {
	if !s.pool.filter.Matches(host) {
		return
	}
	if end, removed := s.removed[host.Name]; removed {
		order, err := resourceversion.CompareResourceVersion(host.ResourceVersion, end)
		if err != nil || order <= 0 {
			return
		}
	}
	s.returned(host)
}

// noteRemoved takes note of a host that went away, if the hosts are being read.
func (s *shard) noteRemoved(host *infrav1.CapstanHost, stale bool) {
	switch {
	case s.removed == nil:
	case stale:
		s.removed[host.Name] = ""
	default:
		s.removed[host.Name] = host.ResourceVersion
	}
}
