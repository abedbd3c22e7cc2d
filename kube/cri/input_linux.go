package cri

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/kube/cri/process"
	"github.com/capstan-dev/capstan/kube/run"
)

// input feeds a container's standard input.
type input struct {
	to  io.Writer
	end func() // called when the client's input ends
}

// input opens the standard input of a container: its terminal, or its pipe.
func (s *Server) input(c *container, terminal *os.File) (*input, error) {
	if terminal != nil {
		return &input{terminal, func() {}}, nil // a typed character ends a terminal's input
	}
	pipe, err := os.OpenFile(filepath.Join(s.store.containerDir(c.ID), run.StdinFile), os.O_WRONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) {
		return nil, errors.New("the container's standard input was closed")
	}
	if err != nil {
		return nil, fmt.Errorf("opening the container's standard input: %w", err)
	}
	s.mu.RLock()
	p := c.process
	s.mu.RUnlock()
	return &input{pipe, func() {
		pipe.Close()
		if c.config.StdinOnce && p != nil {
			// the container's supervisor closes its own end of the pipe
			if err := p.Signal(unix.SIGUSR1); err != nil && !errors.Is(err, process.ErrGone) {
				s.log.Warn("closing the standard input of a container", "container", c.name(), "error", err)
			}
		}
	}}, nil
}

// copy copies the client's input until it ends.
func (i *input) copy(from io.Reader) {
	io.Copy(i.to, from)
	i.end()
}
