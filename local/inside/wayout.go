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

// wayOut makes this process reach API servers of clusters that are not in the dock, through the dock's outer process.
// It must be called before anything else uses the network: Cluster API's clients ask the environment for a proxy, once.
// Only this process gets to know of it. It ends with ctx.
func wayOut(ctx context.Context, dir home.Dir) error {
	// A proxy has an address of TCP, and the dock's is a socket: this joins them. It is the loopback interface of the
	// dock, where neither hosts nor pods are.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("the way out of the dock: %w", err)
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

// join carries a connection to the dock's socket.
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
