package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/logfile"
	"github.com/capstan-dev/capstan/kube/run"
)

// Bounds of streams.
const (
	headerTimeout = 10 * time.Second
	dialTimeout   = 10 * time.Second
)

// streams serves exec, attach and port-forward: the kubelet requests a URL by gRPC (with a random token, for one use)
// and connects to it. The server listens on a loopback port of the host.
type streams struct {
	lib  streamServer
	http *http.Server
	done chan struct{}

	ctx    context.Context // bounds everything that is executed or forwarded
	cancel context.CancelFunc
	active sync.WaitGroup
}

func newStreams(s *Server) (*streams, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for streams (is the loopback interface up?): %w", err)
	}
	st := &streams{done: make(chan struct{})}
	st.ctx, st.cancel = context.WithCancel(context.Background())
	config := defaultStreamConfig
	config.Addr = listener.Addr().String()
	config.BaseURL = &url.URL{Scheme: "http", Host: config.Addr}
	if st.lib, err = newStreamServer(config, &streamRuntime{s, st}); err != nil {
		listener.Close()
		return nil, fmt.Errorf("making the stream server: %w", err)
	}
	st.http = &http.Server{Handler: st.lib, ReadHeaderTimeout: headerTimeout}
	go func() {
		defer close(st.done)
		st.http.Serve(listener) // returns after close
	}()
	return st, nil
}

// close ends all streams and waits for what they run.
func (st *streams) close() {
	st.cancel()
	st.http.Close()
	<-st.done
	st.active.Wait()
}

// begin returns a context for one stream, and a function to call at the end of the stream. The context is done when the
// request ends or the server closes.
func (st *streams) begin(request context.Context) (context.Context, func()) {
	st.active.Add(1)
	ctx, cancel := context.WithCancel(st.ctx)
	stop := context.AfterFunc(request, cancel)
	return ctx, func() {
		stop()
		cancel()
		st.active.Done()
	}
}

// Exec prepares the execution of a command in a container.
func (s *Server) Exec(_ context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if _, err := s.real(req.ContainerId); err != nil {
		return nil, err
	}
	return s.streams.lib.GetExec(req)
}

// Attach prepares a connection to a container's output and input.
func (s *Server) Attach(_ context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if _, err := s.real(req.ContainerId); err != nil {
		return nil, err
	}
	return s.streams.lib.GetAttach(req)
}

// PortForward prepares connections to a port of a pod, which must be real or use the host's network.
func (s *Server) PortForward(_ context.Context,
	req *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	s.mu.RLock()
	sb := s.sandboxes[req.PodSandboxId]
	s.mu.RUnlock()
	switch {
	case sb == nil || !sb.Ready:
		return nil, status.Errorf(codes.NotFound, "there is no running sandbox %s", req.PodSandboxId)
	case !sb.hostNetwork() && !sb.Real:
		return nil, status.Error(codes.FailedPrecondition, "the pod is hollow: nothing listens in it")
	}
	return s.streams.lib.GetPortForward(req)
}

// real returns a container, or an error if it is not running or has no process.
func (s *Server) real(id string) (*container, error) {
	c, err := s.find(id)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case c.State != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return nil, status.Errorf(codes.FailedPrecondition, "container %s is not running", c.name())
	case c.process == nil:
		return nil, status.Errorf(codes.FailedPrecondition, "container %s is hollow: there is no process in it", c.name())
	}
	return c, nil
}

// streamRuntime implements the interface that the streaming library calls.
type streamRuntime struct {
	server  *Server
	streams *streams
}

// Exec executes a command.
func (r *streamRuntime) Exec(ctx context.Context, id string, command []string, in io.Reader, out, errOut io.WriteCloser,
	tty bool, resize <-chan terminalSize) error {
	c, err := r.server.real(id)
	if err != nil {
		return err
	}
	ctx, end := r.streams.begin(ctx)
	defer end()
	ctx, done := r.server.whileRunning(ctx, c)
	defer done()
	cmd, err := r.server.command(ctx, c, command, tty)
	if err != nil {
		return err
	}
	if tty {
		return runOnTerminal(cmd, in, out, resize)
	}
	return runOnPipes(cmd, in, out, errOut)
}

// Attach streams the output of a container from now on, and passes the client's input to the container. Components read
// no input.
func (r *streamRuntime) Attach(
	ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, _ bool, resize <-chan terminalSize,
) error {
	c, err := r.server.real(id)
	if err != nil {
		return err
	}
	ctx, end := r.streams.begin(ctx)
	defer end()
	r.server.mu.RLock()
	log, terminal := c.log, c.terminal
	r.server.mu.RUnlock()
	if log == nil {
		return nil // it has just ended
	}
	feed := func() {}
	if c.Real && c.config.Stdin && in != nil {
		input, err := r.server.input(c, terminal)
		if err != nil {
			return err
		}
		feed = func() { go input.copy(in) } // until the client leaves and the stream fails
	}
	if terminal != nil && resize != nil {
		go func() {
			for size := range resize {
				setSize(terminal, size)
			}
		}()
	}
	return followOutput(ctx, log, feed, out, errOut)
}

// followOutput copies a container's output to the writers (nil for none) from now on, until the log closes or ctx is
// done. It calls feed once it follows the log: the program's answer to the first input must not be lost.
func followOutput(ctx context.Context, log *logfile.Log, feed func(), out, errOut io.Writer) error {
	chunks, stop := log.Follow()
	defer stop()
	feed()
	for {
		select {
		case <-ctx.Done():
			return nil
		case chunk, ok := <-chunks:
			if !ok {
				return nil
			}
			w := out
			if chunk.Stream == logfile.Stderr {
				w = errOut
			}
			if w == nil {
				continue
			}
			if _, err := w.Write(chunk.Data); err != nil {
				return err
			}
		}
	}
}

// PortForward connects the stream to a port on the loopback interface of the pod or of the host.
func (r *streamRuntime) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	ctx, end := r.streams.begin(ctx)
	defer end()
	r.server.mu.RLock()
	sb := r.server.sandboxes[id]
	r.server.mu.RUnlock()
	if sb == nil {
		return status.Errorf(codes.NotFound, "there is no sandbox %s", id)
	}
	network := run.Host
	if sb.Real {
		network = r.server.spaces(id).namespace("net", run.Host)
	}
	conn, err := dialIn(ctx, network, strconv.Itoa(int(port)))
	if err != nil {
		return fmt.Errorf("connecting to port %d: %w", port, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() {
		conn.Close()
		stream.Close()
	})
	defer stop()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.Copy(conn, stream)
		conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	stream.Close() // ends the other direction
	<-sent
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
