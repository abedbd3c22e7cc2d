// Local-plane starts a management plane with hosts on this machine, shows the hosts, and stops the plane again. It uses
// only Capstan's package local and Capstan's binaries:
//
//	GOWORK=off go run . -binaries ../../bin
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/capstan-dev/capstan/local"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run does the work of main and returns the exit code.
func run(args []string, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("local-plane", flag.ContinueOnError)
	flags.SetOutput(errOut)
	binaries := flags.String("binaries", "", "directory with Capstan's binaries")
	hosts := flags.Int("hosts", 3, "number of hosts")
	if flags.Parse(args) != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, *binaries, *hosts, out, errOut); err != nil {
		fmt.Fprintln(errOut, "Error:", err)
		var advised interface{ Hint() string }
		if errors.As(err, &advised) {
			fmt.Fprintln(errOut, "Hint:", advised.Hint())
		}
		return 1
	}
	return 0
}

// show starts a plane, prints its hosts, and removes it.
func show(ctx context.Context, binaries string, hosts int, out, errOut io.Writer) (err error) {
	temp, err := os.MkdirTemp("", "local-plane-")
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	place := local.Place{Home: filepath.Join(temp, "home"), Binaries: binaries}
	progress := func(e local.Event) {
		if e.Kind == local.StepDone {
			fmt.Fprintln(errOut, "done:", e.Step)
		}
	}

	defer func() {
		// Stop the plane even after an error or Ctrl-C. Otherwise it would keep running after this program has exited.
		down := local.Down(context.WithoutCancel(ctx), local.DownOptions{Home: place.Home, Delete: true, Progress: progress})
		var none *local.NoPlaneError
		if errors.As(down, &none) {
			return // it was never started
		}
		err = errors.Join(err, down)
		if err == nil {
			fmt.Fprintln(out, "The plane is gone.")
		}
	}()
	plane, err := local.Up(ctx, local.UpOptions{Place: place, Hosts: hosts, Progress: progress})
	if err != nil {
		return err
	}
	status, err := local.Status(ctx, place)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The plane is %s: Kubernetes %s, %d hosts.\n", status.Plane, plane.KubernetesVersion, plane.Hosts)
	client, err := local.Connect(place.Home)
	if err != nil {
		return err
	}
	list, err := local.Hosts(ctx, client, local.Namespace)
	if err != nil {
		return err
	}
	for _, h := range list {
		fmt.Fprintf(out, "%s  %s  %s\n", h.Name, h.Zone, h.State)
	}
	return nil
}
