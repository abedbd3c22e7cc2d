package cri

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// eventBuffer is how many events a watcher may lag behind before its stream ends and it must list again.
const eventBuffer = 1000

// events distributes events to watchers.
type events struct {
	mu       sync.Mutex
	closed   bool
	watchers map[chan *runtimeapi.ContainerEventResponse]struct{}
}

// watch returns a channel that receives all events from now on. It is closed when its reader lags too far behind, or
// when the server stops.
func (e *events) watch() chan *runtimeapi.ContainerEventResponse {
	w := make(chan *runtimeapi.ContainerEventResponse, eventBuffer)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		close(w)
		return w
	}
	if e.watchers == nil {
		e.watchers = map[chan *runtimeapi.ContainerEventResponse]struct{}{}
	}
	e.watchers[w] = struct{}{}
	return w
}

func (e *events) unwatch(w chan *runtimeapi.ContainerEventResponse) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.watchers[w]; ok {
		delete(e.watchers, w)
		close(w)
	}
}

func (e *events) send(event func() *runtimeapi.ContainerEventResponse) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.watchers) == 0 {
		return
	}
	ev := event()
	for w := range e.watchers {
		select {
		case w <- ev:
		default:
			delete(e.watchers, w)
			close(w)
		}
	}
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for w := range e.watchers {
		close(w)
	}
	e.watchers = nil
}

// emit reports a change of a container or sandbox (by its id) to watchers, with the state of the whole pod. The caller
// holds the server's lock.
func (s *Server) emit(kind runtimeapi.ContainerEventType, id string, sb *sandbox) {
	s.events.send(func() *runtimeapi.ContainerEventResponse {
		ev := &runtimeapi.ContainerEventResponse{
			ContainerId:        id,
			ContainerEventType: kind,
			CreatedAt:          time.Now().UnixNano(),
		}
		if sb == nil {
			return ev
		}
		ev.PodSandboxStatus = sandboxStatus(sb)
		for _, c := range s.containers {
			if c.Sandbox == sb.ID {
				ev.ContainersStatuses = append(ev.ContainersStatuses, containerStatus(c))
			}
		}
		return ev
	})
}

// GetContainerEvents streams events until the client leaves.
func (s *Server) GetContainerEvents(_ *runtimeapi.GetEventsRequest,
	stream runtimeapi.RuntimeService_GetContainerEventsServer) error {
	w := s.events.watch()
	defer s.events.unwatch(w)
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case ev, ok := <-w:
			if !ok {
				return status.Error(codes.ResourceExhausted, "the watcher lags behind: list and watch again")
			}
			if err := stream.Send(ev); err != nil {
				return err
			}
		}
	}
}
