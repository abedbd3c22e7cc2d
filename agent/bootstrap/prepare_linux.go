package bootstrap

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/regular"
)

// runtimeSocket is where the container runtime listens.
const runtimeSocket = "/run/containerd/containerd.sock"

// runtimeLimit bounds the start of the container runtime.
const runtimeLimit = time.Minute

// prepare returns the steps that run before the steps of the data. The returned steps run every time, because a reboot
// may have undone them.
func (b *Bootstrap) prepare(config *cloudconfig.Config) []step {
	steps := []step{{name: "bundle", always: true, run: func(ctx context.Context, _ string) (int, error) {
		return 0, b.installBundle(ctx)
	}}}
	if b.Local {
		steps = append(steps, step{name: "hostname", always: true, run: func(context.Context, string) (int, error) {
			return 0, b.setHostname()
		}})
	}
	steps = append(steps, step{name: "runtime", always: true, run: func(ctx context.Context, _ string) (int, error) {
		return 0, b.startRuntime(ctx)
	}})
	if b.Local {
		return steps
	}
	steps = append(steps, step{name: "node name", always: true, run: func(context.Context, string) (int, error) {
		b.nameNode()
		return 0, nil
	}})
	return append(steps, step{name: "images", always: true, run: func(ctx context.Context, _ string) (int, error) {
		return 0, b.loadImages(ctx, config)
	}})
}

// setHostname sets the host's name, now and for later boots.
func (b *Bootstrap) setHostname() error {
	name, keeper := b.Hostname, b.host().Undo
	for _, path := range []string{"/etc/hostname", "/etc/hosts"} {
		if err := keeper.Keep(path); err != nil {
			return fault.New(err, "keeping the host's own name")
		}
	}
	if err := syscall.Sethostname([]byte(name)); err != nil {
		return fault.New(err, "setting the host name")
	}
	if err := atomicfile.Write("/etc/hostname", []byte(name+"\n"), 0o644); err != nil {
		return fault.New(err, "writing the host name")
	}
	hosts, err := regular.Read("/etc/hosts", 1<<20)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(err, "reading /etc/hosts")
	}
	if err := atomicfile.Write("/etc/hosts", []byte(nameInHosts(string(hosts), name)), 0o644); err != nil {
		return fault.New(err, "writing /etc/hosts")
	}
	return nil
}

// nameInHosts returns the text of /etc/hosts with the host's own name in place of an earlier one. Like Debian, it uses
// 127.0.1.1.
func nameInHosts(text, name string) string {
	const mark = "# the host's own name"
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(strings.TrimSpace(line), mark) {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	short, _, _ := strings.Cut(name, ".")
	names := name
	if short != name {
		names += " " + short
	}
	return b.String() + "127.0.1.1 " + names + " " + mark + "\n"
}

// startRuntime starts the container runtime and enables the kubelet, which kubeadm starts. A host that is not local may
// have another runtime, or install one through its bootstrap data. So a containerd that does not start is an error only
// on a local host.
func (b *Bootstrap) startRuntime(ctx context.Context) error {
	if err := b.noteEnabled(ctx); err != nil {
		return err
	}
	if err := b.systemctl(ctx, "enable", "kubelet"); err != nil && b.Local {
		return fault.New(err, "enabling the kubelet")
	}
	err := b.systemctl(ctx, "enable", "containerd")
	if err == nil && !listens(runtimeSocket) {
		err = b.systemctl(ctx, "start", "containerd")
	}
	if err != nil {
		if b.Local {
			return fault.New(err, "starting containerd")
		}
		b.Log.Printf("there is no containerd: the host has another container runtime, or gets one later")
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, runtimeLimit,
		fault.New(nil, "containerd did not listen within %s; see its log", runtimeLimit))
	defer cancel()
	pauses := backoff.Backoff{First: 10 * time.Millisecond, Max: 500 * time.Millisecond}
	for !listens(runtimeSocket) {
		if pauses.Wait(ctx) != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// noteEnabled notes, once per claim, which of the services were enabled before, so that cleaning leaves those enabled.
func (b *Bootstrap) noteEnabled(ctx context.Context) error {
	const all = "" // key of the note that all units were checked
	if slices.Contains(b.Journal.Notes(KeyEnabled), all) {
		return nil
	}
	for _, unit := range []string{"kubelet", "containerd", all} {
		if unit == all || b.systemctl(ctx, "is-enabled", "--quiet", unit) == nil {
			if err := b.Journal.Note(KeyEnabled, unit); err != nil {
				return &journalError{err}
			}
		}
	}
	return nil
}

func (b *Bootstrap) systemctl(ctx context.Context, args ...string) error {
	args = append([]string{"systemctl"}, args...)
	b.Log.Printf("+ %s", strings.Join(args, " "))
	return command.Command{Args: args, Output: b.Log}.Run(ctx)
}

func listens(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
