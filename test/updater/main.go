// Updater is a runtime extension that pretends to update files of Machines in place, for Cluster API's spec of in-place
// updates. It replaces upstream's own extension, which decodes only machines of upstream's development provider. Like
// that extension, it takes some seconds for each machine, but changes nothing on the machine. It has the flags of
// Cluster API's providers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/runtime/inplace"
	"github.com/capstan-dev/capstan/runtime/server"
)

// duration is how long an update takes; pause is how soon Cluster API calls again.
const (
	duration = 5 * time.Second
	pause    = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stderr))
}

func run(ctx context.Context, args []string, errs io.Writer) int {
	flags := flag.NewFlagSet("updater", flag.ContinueOnError)
	flags.SetOutput(errs)
	port := flags.Int("webhook-port", 9443, "port of the hooks on 127.0.0.1")
	certificates := flags.String("webhook-cert-dir", "", "directory with tls.crt and tls.key")
	health := flags.String("health-addr", "127.0.0.1:9440", "address of /healthz and /readyz")
	for _, unused := range []string{"leader-elect", "diagnostics-address", "insecure-diagnostics", "feature-gates"} {
		flags.String(unused, "", "has no effect; exists because other providers have this flag")
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	u := &updates{begun: map[string]time.Time{}, now: time.Now}
	extension, err := server.New(server.Options{}, u.updater().Handlers("files")...)
	if err == nil {
		err = serve(ctx, extension, server.TLS{
			Address:  "127.0.0.1:" + strconv.Itoa(*port),
			CertFile: filepath.Join(*certificates, "tls.crt"), KeyFile: filepath.Join(*certificates, "tls.key"),
		}, *health)
	}
	if err != nil {
		fmt.Fprintln(errs, "updater:", err)
		return 1
	}
	return 0
}

// serve serves hooks and probes until ctx is done.
func serve(ctx context.Context, extension *server.Server, tls server.TLS, health string) error {
	probes := &http.Server{Addr: health, Handler: extension.Health(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		failed <- probes.ListenAndServe()
		stop()
	}()
	err := server.Serve(ctx, tls, extension)
	err = errors.Join(err, probes.Close())
	if probe := <-failed; !errors.Is(probe, http.ErrServerClosed) {
		err = errors.Join(err, probe)
	}
	return err
}

// updates records when updates began.
type updates struct {
	mu    sync.Mutex
	begun map[string]time.Time // by machine
	now   func() time.Time
}

func (u *updates) updater() inplace.Updater {
	return inplace.Updater{
		Takes: []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")},
		Update: func(_ context.Context, machine inplace.Desired) error {
			return u.update(machine.Machine.Namespace + "/" + machine.Machine.Name)
		},
	}
}

// update makes an update wait until its duration has passed.
func (u *updates) update(machine string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	began, ok := u.begun[machine]
	if !ok {
		u.begun[machine] = u.now()
	}
	if !ok || u.now().Sub(began) < duration {
		return server.Wait(pause, "updating files")
	}
	delete(u.begun, machine)
	return nil
}
