package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/steps"
	"github.com/capstan-dev/capstan/local"
)

const planeUnit = "plane"

func (a *app) upCommand() *cobra.Command {
	var hosts int
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "up", Short: "Start the management plane on this machine, in the background", Args: cobra.NoArgs,
		Long: `Starts the management plane on this machine, in the background: etcd, an API server and all of Cluster API, in namespaces of their own.
Nothing on the machine's own network changes. Doing it again is harmless; what was there before comes back.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if hosts < 0 || hosts > 200 {
				return hint("choose between 1 and 200, or leave it out", "--hosts %d does not work", hosts)
			}
			return a.up(ctx, hosts)
		},
	}
	cmd.Flags().IntVar(&hosts, "hosts", 0, "number of local hosts in the inventory (default: what the machine can hold)")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Minute, "how long to wait")
	return cmd
}

func (a *app) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(string(a.home), 0o700); err != nil {
		return nil, hint("choose another directory with --home or CAPSTAN_HOME", "making the home directory: %w", err)
	}
	return a.lockFile(ctx, filepath.Join(string(a.home), "lock"), "capstan up or down")
}

func (a *app) up(ctx context.Context, hosts int) error {
	self, err := a.bin.Path("capstan")
	if err != nil {
		return err
	}
	for _, name := range []string{"capstan-dock", "capstan-agent", "capstan-extension"} {
		if _, err := a.bin.Path(name); err != nil {
			return err
		}
	}
	if len(a.bin.Bundles()) == 0 {
		return hint("run: make build", "no Kubernetes bundle is built in %s/bundles", a.bin)
	}
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if hosts, err = a.inventorySize(hosts); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := a.start(ctx, self, hosts)
		if err == nil {
			break
		}
		// A dock that was killed just before answers until its last process is gone, and one may be killed at any time.
		ended := errors.Is(err, errDockEnded) || errors.Is(err, dock.ErrNotRunning)
		if !ended || attempt == maxStarts || ctx.Err() != nil {
			return err
		}
		fmt.Fprintln(a.err, "The dock has ended meanwhile; starting it again.")
	}
	fmt.Fprintf(a.err, "\nThe management plane is ready: %d hosts, Kubernetes %s.\n", hosts, a.bin.Bundles()[0])
	a.next("capstan cluster create demo", "capstan host list", "export KUBECONFIG="+a.home.Kubeconfig(), "capstan down")
	return nil
}

// errDockEnded is wrapped by errors of waits that can't end well, because the dock is not there any more.
var errDockEnded = hint("try again: capstan up", "the dock has ended")

// maxStarts is how often one "up" starts a dock that ends again.
const maxStarts = 3

// start brings everything up once.
func (a *app) start(ctx context.Context, self string, hosts int) error {
	// What an earlier plane wrote says nothing about one that the dock starts now; and a dock that was killed could not remove it.
	before, err := a.status(ctx)
	if err != nil {
		return err
	}
	if before.Plane == "Stopped" {
		if err := os.Remove(a.home.Ready()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing the sign of an earlier plane: %w", err)
		}
	}
	p := a.steps()
	var docked *dock.Client
	if err := p.Run("dock started", func(func(string)) error {
		docked, err = dock.Start(ctx, dock.Options{Home: string(a.home), BinDir: string(a.bin)})
		return err
	}); err != nil {
		return explainDock(err)
	}
	defer docked.Close()
	var server string
	if err := p.Run("way to the API server", func(func(string)) error {
		server, err = docked.EnsureRelay(ctx, planeUnit, "127.0.0.1:"+strconv.Itoa(local.PlanePort))
		return err
	}); err != nil {
		return explainDock(err)
	}
	if err := a.startPlane(ctx, p, docked, self, server, hosts); err != nil {
		return err
	}
	return p.Run("inventory registered", func(detail func(string)) error { return a.waitForHosts(ctx, docked, hosts, detail) })
}

// startPlane starts the plane as a unit of the dock, and waits until it says that it is ready.
func (a *app) startPlane(ctx context.Context, p *steps.Printer, docked *dock.Client, self, server string, hosts int) error {
	p.Start("management plane ready")
	unit, err := docked.EnsureUnit(ctx, dock.Unit{
		Name:    planeUnit,
		Argv:    []string{self, "plane", "--home", string(a.home), "--server", "https://" + server, "--hosts", strconv.Itoa(hosts)},
		Env:     planeEnvironment(),
		LogFile: filepath.Join(a.home.Plane(), "logs", "plane.log"),
		Grace:   30 * time.Second,
	})
	if err != nil {
		p.Fail()
		return explainDock(err)
	}
	restarts := unit.Restarts
	for {
		status, err := a.status(ctx)
		if err == nil && status.Plane == "Ready" {
			if _, err := a.client(); err == nil {
				p.Done()
				return nil
			}
		}
		if err == nil && status.Dock == "Stopped" {
			p.Fail()
			return errDockEnded
		}
		// One crash may be another process's fault; a third one is a reason to stop waiting.
		if err == nil && status.Restarts-restarts >= 3 {
			p.Fail()
			return hint("the whole log is "+filepath.Join(a.home.Plane(), "logs", "plane.log"), "the management plane ends again and again: %s\n%s", status.Error, a.lastLines(15))
		}
		select {
		case <-ctx.Done():
			p.Fail()
			return hint("the whole log is "+filepath.Join(a.home.Plane(), "logs", "plane.log"), "the management plane is not ready in time\n%s", a.lastLines(15))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// waitForHosts waits until the inventory has its size and each host its state: a cluster that is made before would be refused
// or held back.
func (a *app) waitForHosts(ctx context.Context, docked *dock.Client, hosts int, detail func(string)) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return poll(ctx, func() (bool, error) {
		list := &infrav1.CapstanHostList{}
		if err := c.List(ctx, list, client.InNamespace(defaultNamespace)); err != nil { // local hosts are there, and nowhere else
			if _, gone := docked.Status(ctx); errors.Is(gone, dock.ErrNotRunning) {
				return false, errDockEnded
			}
			return false, err
		}
		settled := 0
		for _, h := range list.Items {
			if h.Status.Phase != "" && h.Status.Phase != infrav1.HostEnrolling {
				settled++
			}
		}
		detail(fmt.Sprintf("%d of %d hosts", settled, hosts))
		if settled < hosts {
			return false, nil
		}
		// It may have ended since it was ready, and begin anew: whoever has answered then is not all of it.
		status, err := a.status(ctx)
		return err == nil && status.Plane == "Ready", err
	})
}

// explainDock turns what the dock or the machine refuses into an error with a hint.
func explainDock(err error) error {
	if problems := dock.Problems(err); len(problems) > 0 {
		var whats, fixes []string
		for _, p := range problems {
			whats, fixes = append(whats, p.What()), append(fixes, p.Fix)
		}
		return hint(strings.Join(fixes, "\n      "), "%s", strings.Join(whats, "\n       "))
	}
	var other *dock.BinDirError
	if errors.As(err, &other) {
		return hint("run capstan down, then capstan up", "%w", err)
	}
	switch dock.CodeOf(err) {
	case dock.CodePortTaken:
		return hint("end the other process, or remove everything with capstan down --delete", "%w", err)
	case dock.CodeNoSpace:
		return hint("free some space, or choose another disk with --home or CAPSTAN_HOME", "%w", err)
	}
	return err
}

// inventorySize decides how many local hosts there are: what the user says now, else what was said before, else what the
// machine can hold. It is kept in the home directory.
func (a *app) inventorySize(wanted int) (int, error) {
	path := filepath.Join(string(a.home), "up.json")
	var kept struct {
		Hosts int `json:"hosts"`
	}
	if data, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(data, &kept); err != nil {
			return 0, hint("remove that file and try again", "reading %s: %w", path, err)
		}
	}
	if wanted == 0 {
		wanted = kept.Hosts
	}
	if wanted == 0 {
		wanted = hostsFor(memoryMiB(), inotifyInstances())
	}
	if wanted == kept.Hosts {
		return wanted, nil
	}
	kept.Hosts = wanted
	data, err := json.Marshal(kept)
	if err != nil {
		return 0, err
	}
	return wanted, writeSecret(path, data)
}

// hostsFor is how many local hosts a machine can hold: one for each 512 MiB beyond what the plane takes, and one for each
// 8 inotify instances (a control plane takes 18, a worker 5); 3 to 32. Zero means unknown. Pure.
func hostsFor(memoryMiB, inotifyInstances int) int {
	n := 32
	if memoryMiB > 0 {
		n = min(n, (memoryMiB-1536)/512)
	}
	if inotifyInstances > 0 {
		n = min(n, inotifyInstances/8)
	}
	return max(n, 3)
}

func memoryMiB() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int(uint64(info.Totalram) * uint64(info.Unit) >> 20)
}

func inotifyInstances() int {
	n, err := dock.InotifyInstances()
	if err != nil {
		return 0
	}
	return n
}

// lastLines returns the end of the plane's log.
func (a *app) lastLines(n int) string {
	data, err := os.ReadFile(filepath.Join(a.home.Plane(), "logs", "plane.log"))
	if err != nil {
		return ""
	}
	end := len(data)
	for i := len(data) - 1; i >= 0; i-- {
		if data[i] == '\n' && i != end-1 {
			if n--; n == 0 {
				return string(data[i+1:])
			}
		}
	}
	return string(data)
}
