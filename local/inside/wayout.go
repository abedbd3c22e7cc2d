package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/home"
)

// wayOut lets this process reach API servers of clusters outside the dock, through the dock's outer process. Call it
// before anything else uses the network: Cluster API's clients read the proxy from the environment only once. Only this
// process and the extension use the proxy. They can't use it any more once ctx ends.
func wayOut(ctx context.Context, dir home.Dir) error {
	// A proxy needs a TCP address but the dock's proxy is a socket, so this listener connects the two. It listens on
	// the dock's loopback interface, which neither hosts nor pods reach.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("the relay out of the dock: %w", err)
	}
	context.AfterFunc(ctx, func() { l.Close() })
	socket := filepath.Join(dir.Dock(), "out.sock")
	go func() {
		for {
			near, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go join(near, socket)
			}
		}
	}()
	inDock := append([]string{"localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local"}, dock.Ranges()...)
	return errors.Join(os.Setenv("HTTPS_PROXY", "http://"+l.Addr().String()),
		os.Setenv("NO_PROXY", strings.Join(inDock, ",")))
}

// join forwards a connection to the dock's socket.
func join(near net.Conn, socket string) {
	defer near.Close()
	far, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer far.Close()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(near, far)
}
