// Package scope moves a dock of an ordinary user into a systemd scope of its own, so that its hosts can have limits: in
// version 2 of control groups, systemd delegates a scope's group to the user who asked for it.
package scope

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/capstan-dev/capstan/dock/cgroup"
)

// limit bounds how long the user's systemd may take to make the scope.
const limit = 10 * time.Second

// lingering has a file for each user whose systemd runs without a session of the user.
const lingering = "/var/lib/systemd/linger"

// Enter asks the user's systemd for a scope with this process in it, and then moves the process to the group
// [cgroup.Main] below it. The scope ends with the last process in it. id distinguishes docks of one user.
//
// A group with processes of its own can't limit groups below it, and PID 1 of the dock can't move processes outside of
// its PID namespace. Enter must therefore be called before PID 1 starts. The error explains why there is no scope.
//
// The scopes of a user who doesn't linger end with the user's last session. Such a user gets none: hosts without limits
// are better than hosts that stop when their user logs out.
func Enter(ctx context.Context, id string) error {
	if err := lingers(lingering); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := start(ctx, socket(), fmt.Sprintf("capstan-%s-%d.scope", id, os.Getpid())); err != nil {
		return fmt.Errorf("asking the user's systemd for a scope: %w", err)
	}
	return cgroup.MakeRoom()
}

// lingers returns an error if the user's systemd stops when the user logs out. dir is [lingering].
func lingers(dir string) error {
	who, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return fmt.Errorf("looking up the user whose systemd would make a scope: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, who.Username)); err != nil {
		return fmt.Errorf("%w: the hosts would stop when %s logs out; to give them limits, run: loginctl enable-linger",
			err, who.Username)
	}
	return nil
}

// socket returns the path of the socket at which the user's systemd listens. This socket exists even without a message
// bus.
func socket() string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = filepath.Join("/run/user", strconv.Itoa(os.Getuid()))
	}
	return filepath.Join(dir, "systemd/private")
}

// start makes systemd start a scope with this process in it, and waits until it has.
func start(ctx context.Context, socket, name string) error {
	conn, err := systemd.NewConnection(func() (*dbus.Conn, error) { return dial(ctx, socket) })
	if err != nil {
		return err
	}
	defer conn.Close()
	started := make(chan string, 1)
	properties := []systemd.Property{
		systemd.PropDescription("Local hosts of Capstan"),
		systemd.PropPids(uint32(os.Getpid())),
		{Name: "Delegate", Value: dbus.MakeVariant(true)},
	}
	if _, err := conn.StartTransientUnitContext(ctx, name, "fail", properties, started); err != nil {
		return err
	}
	select {
	case result := <-started:
		if result != "done" {
			return fmt.Errorf("starting %s: the job's result is %q", name, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("starting %s: %w", name, ctx.Err())
	}
}

func dial(ctx context.Context, socket string) (*dbus.Conn, error) {
	conn, err := dbus.Dial("unix:path="+socket, dbus.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		return nil, errors.Join(err, ctx.Err(), conn.Close())
	}
	return conn, nil
}
