//go:build linux

package realtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
)

// sizes are successive sizes of a terminal.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func (h *host) stream(ctx context.Context, address string, options remotecommand.StreamOptions) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, "POST", u)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, options)
}

func TestExecStreams(t *testing.T) {
	h := newHost(t)
	container, _ := h.run(nil, "wait")
	resp, err := h.Exec(h.ctx, &runtimeapi.ExecRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "echo", "complain=oops", "exit=3"},
		Stdin: true, Stdout: true, Stderr: true,
	})
	h.must(err)
	var out, errOut hosttest.Screen
	err = h.stream(
		h.ctx,
		resp.Url,
		remotecommand.StreamOptions{Stdin: strings.NewReader("one\ntwo\n"), Stdout: &out, Stderr: &errOut},
	)
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Errorf("the command ended with %v, want exit code 3", err)
	}
	if out.String() != "got one\ngot two\ninput ended\n" || errOut.String() != "oops\n" {
		t.Errorf("got %q and %q", out.String(), errOut.String())
	}
	resp, err = h.Exec(h.ctx, &runtimeapi.ExecRequest{ContainerId: container, Cmd: []string{"no-such"}, Stdout: true})
	h.must(err)
	if err := h.stream(h.ctx, resp.Url, remotecommand.StreamOptions{Stdout: &out}); err == nil ||
		!strings.Contains(err.Error(), "not found in $PATH") {
		t.Errorf("executing a program that the image lacks: %v", err)
	}
}

func TestExecOnATerminal(t *testing.T) {
	h := newHost(t)
	container, _ := h.run(nil, "wait")
	resp, err := h.Exec(h.ctx, &runtimeapi.ExecRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "echo", "facts"}, Stdin: true, Stdout: true, Tty: true,
	})
	h.must(err)
	in, typed := io.Pipe()
	resize := make(sizes, 1)
	resize <- remotecommand.TerminalSize{Width: 91, Height: 17}
	var out hosttest.Screen
	done := make(chan error, 1)
	go func() {
		done <- h.stream(h.ctx, resp.Url, remotecommand.StreamOptions{
			Stdin: in, Stdout: &out, Tty: true, TerminalSizeQueue: resize,
		})
	}()
	_, err = io.WriteString(typed, "line\n")
	h.must(err)
	h.waitFor("the answer", func() bool { return strings.Contains(out.String(), "got line\r\n") })
	_, err = io.WriteString(typed, "\x04")
	h.must(err)
	h.must(<-done)
	typed.Close()
	close(resize)
	if !strings.Contains(out.String(), `"Terminal":true,"Rows":17,"Cols":91`) {
		t.Errorf("the terminal has the wrong size: %s", out.String())
	}
}

func TestAQuickCommandOnATerminal(t *testing.T) {
	h := newHost(t)
	quick, _ := h.run(func(c *runtimeapi.ContainerConfig) { c.Tty = true }, "say=quick", "exit=4")
	if st := h.exited(quick); st.ExitCode != 4 || !strings.Contains(h.log(quick), " stdout F quick\r\n") {
		t.Errorf("the container is %v, its log %q", st, h.log(quick))
	}
	container, _ := h.run(nil, "wait")
	for range 20 {
		resp, err := h.Exec(h.ctx, &runtimeapi.ExecRequest{
			ContainerId: container, Cmd: []string{"/bin/program", "say=quick"}, Stdout: true, Tty: true,
		})
		h.must(err)
		var out hosttest.Screen
		h.must(h.stream(h.ctx, resp.Url, remotecommand.StreamOptions{Stdout: &out, Tty: true}))
		if out.String() != "quick\r\n" {
			t.Fatalf("got %q", out.String())
		}
	}
}

func TestAClientOfATerminalThatVanishes(t *testing.T) {
	h := newHost(t)
	container, _ := h.run(nil, "wait")
	before := h.sees(container).Processes
	resp, err := h.Exec(h.ctx, &runtimeapi.ExecRequest{
		ContainerId: container, Cmd: []string{"/bin/program", "wait"}, Stdin: true, Stdout: true, Tty: true,
	})
	h.must(err)
	ctx, cancel := context.WithCancel(h.ctx)
	in, typed := io.Pipe()
	defer typed.Close()
	var out hosttest.Screen
	done := make(chan error, 1)
	go func() {
		done <- h.stream(ctx, resp.Url, remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: true})
	}()
	h.waitFor("the program", func() bool { return strings.Contains(out.String(), "waiting") })
	cancel()
	<-done
	h.waitFor("the program to end", func() bool {
		unix.Wait4(-1, nil, unix.WNOHANG, nil) // as the first process of a host does
		return h.sees(container).Processes == before
	})
}

func TestAttach(t *testing.T) {
	h := newHost(t)
	for name, tty := range map[string]bool{"pipes": false, "a terminal": true} {
		t.Run(name, func(t *testing.T) {
			container, _ := h.run(
				func(c *runtimeapi.ContainerConfig) { c.Stdin, c.StdinOnce, c.Tty = true, true, tty },
				"echo",
			)
			resp, err := h.Attach(h.ctx, &runtimeapi.AttachRequest{
				ContainerId: container, Stdin: true, Stdout: true, Stderr: !tty, Tty: tty,
			})
			h.must(err)
			in, typed := io.Pipe()
			var out hosttest.Screen
			done := make(chan error, 1)
			options := remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: tty}
			if !tty {
				options.Stderr = io.Discard
			}
			go func() { done <- h.stream(h.ctx, resp.Url, options) }()
			_, err = io.WriteString(typed, "hello\n")
			h.must(err)
			h.waitFor("the answer", func() bool { return strings.Contains(out.String(), "got hello") })
			if tty {
				_, err = io.WriteString(typed, "\x04")
				h.must(err)
			}
			typed.Close() // ends the input of a container that takes input from one client only
			if st := h.exited(container); st.ExitCode != 0 {
				t.Errorf("the container is %v", st)
			}
			h.must(<-done)
			h.waitFor("the log", func() bool { return strings.Contains(h.log(container), "input ended") })
		})
	}
}

func TestPortForward(t *testing.T) {
	h := newHost(t)
	container, pod := h.run(nil, "listen=8080")
	h.logged(container, "stdout F listening")
	if conn, err := net.Dial("tcp", "127.0.0.1:8080"); err == nil {
		conn.Close()
		t.Error("the pod listens in the host's network")
	}
	resp, err := h.PortForward(h.ctx, &runtimeapi.PortForwardRequest{PodSandboxId: pod, Port: []int32{8080}})
	h.must(err)
	u, err := url.Parse(resp.Url)
	h.must(err)
	roundTripper, upgrader, err := spdy.RoundTripperFor(&rest.Config{})
	h.must(err)
	stop, ready := make(chan struct{}), make(chan struct{})
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: roundTripper}, "POST", u)
	forwarder, err := portforward.NewOnAddresses(
		dialer,
		[]string{"127.0.0.1"},
		[]string{"0:8080"},
		stop,
		ready,
		io.Discard,
		os.Stderr,
	)
	h.must(err)
	done := make(chan error, 1)
	go func() { done <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	h.must(err)
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))))
	h.must(err)
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "answer\n" {
		t.Errorf("got %q, %v", got, err)
	}
	conn.Close()
	close(stop)
	h.must(<-done)
}

func TestTheLogIsRotated(t *testing.T) {
	h := newHost(t)
	container, _ := h.run(nil, "term")
	h.logged(container, "stdout F waiting")
	path := h.status(container).LogPath
	h.must(os.Rename(path, path+".1"))
	_, err := h.ReopenContainerLog(h.ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: container})
	h.must(err)
	_, err = h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: 20})
	h.must(err)
	h.logged(container, "stdout F ending")
}
