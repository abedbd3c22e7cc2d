package pool

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// reading is the state of the one initial read of a shard's hosts.
type reading struct {
	read bool
	call *call // nil if no read is running
	// removed maps the hosts that were removed during the read to the resourceVersion of their deletion, or to "" if that
	// is unknown.
	removed map[string]string
}

// call is a running read, which other callers can wait for.
type call struct {
	done chan struct{}
	err  error
}

// Read makes sure that the hosts of a namespace have been read once from the API server, not from a cache. A new watch
// may not show the last writes of an earlier process yet. Don't call Read before the watch has started.
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

// merge adds a host that was read, unless it was removed in the meantime.
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

// noteRemoved records the removal of a host if a read is running.
func (s *shard) noteRemoved(host *infrav1.CapstanHost, stale bool) {
	switch {
	case s.removed == nil:
	case stale:
		s.removed[host.Name] = ""
	default:
		s.removed[host.Name] = host.ResourceVersion
	}
}
