//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/capstan-dev/capstan/image/registry"
	"github.com/capstan-dev/capstan/image/service"
	"github.com/capstan-dev/capstan/image/socket"
	"github.com/capstan-dev/capstan/image/store"
)

const usage = `usage:
  capstan-images serve --dir HOME/images [--once]    serve the image store in a directory
With --once it exits when its standard input closes, otherwise on SIGTERM.
`

// exitLocked is the exit code if another process has the store open.
const exitLocked = 75

// idleAfter is how long after its last work the process returns memory to the machine.
const idleAfter = 20 * time.Second

func run(args []string, in io.Reader, errOut io.Writer) int {
	f := flag.NewFlagSet("capstan-images serve", flag.ContinueOnError)
	f.SetOutput(errOut)
	dir := f.String("dir", "", "absolute path of the store's directory")
	once := f.Bool("once", false, "exit when the standard input closes")
	if len(args) == 0 || args[0] != "serve" || f.Parse(args[1:]) != nil || f.NArg() > 0 || !filepath.IsAbs(*dir) {
		fmt.Fprint(errOut, usage)
		return 2
	}
	syscall.Umask(0o022)
	debug.SetGCPercent(50)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if *once {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		go func() {
			io.Copy(io.Discard, in)
			end()
		}()
	}
	err := serve(ctx, *dir, log.New(errOut, "images: ", log.LstdFlags|log.Lmsgprefix))
	switch {
	case errors.Is(err, store.ErrLocked):
		fmt.Fprintln(errOut, err)
		return exitLocked
	case err != nil:
		fmt.Fprintln(errOut, err)
		return 1
	}
	return 0
}

// serve serves a store until ctx is done.
func serve(ctx context.Context, dir string, logger *log.Logger) error {
	home := filepath.Dir(dir)
	s, err := store.Open(store.Options{Dir: dir, HostsDir: filepath.Join(home, "dock", "hosts"), Log: logger})
	if err != nil {
		return err
	}
	defer s.Close()
	puller, err := registry.New(s, filepath.Join(home, "registries.yaml"), filepath.Join(dir, "accepted.json"))
	if err != nil {
		return err
	}
	server := &service.Server{Store: s, Puller: puller, Log: logger}
	owner, err := socket.Listen(dir, socket.Owner)
	if err != nil {
		return err
	}
	hosts, err := socket.Listen(dir, socket.Hosts)
	if err != nil {
		owner.Close()
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.ServeOwner(ctx, owner) })
	group.Go(func() error { return server.ServeHosts(ctx, hosts) })
	group.Go(func() error { return giveBack(ctx, server) })
	return group.Wait()
}

// giveBack returns memory to the machine while there is no work.
func giveBack(ctx context.Context, s *service.Server) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Worked():
		}
		timer := time.NewTimer(idleAfter)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			debug.FreeOSMemory()
		}
	}
}
