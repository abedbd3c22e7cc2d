package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/snapshot"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

const (
	// commandLimit bounds one command. kubeadm has its own limits, about five minutes in total.
	commandLimit = 30 * time.Minute
	// keyFailed is the key of notes about commands that failed without failing the bootstrap.
	keyFailed = "failed-command"
)

// scriptPath is the file with the running command; /run is in memory, so the command's secrets never reach a disk.
const scriptPath = "/run/capstan/command"

// resetDirs are the directories that "kubeadm reset" deletes and that commands before kubeadm may have written to.
var resetDirs = []string{"/etc/kubernetes", "/var/lib/kubelet", "/run/kubeadm", "/run/cluster-api"}

// notFound is the exit status of a shell that does not find a program.
const notFound = 127

var kubeadmCommand = regexp.MustCompile(`(^|[\s;&|(/'"])kubeadm['"]?\s+['"]?(init|join)\b`)

// isKubeadm reports whether a command makes this host a node. Such a command changes so much that it can't be repeated
// without a reset.
func isKubeadm(c cloudconfig.Command) bool { return kubeadmCommand.MatchString(c.Script) }

// writesSentinel reports whether a command records that kubeadm succeeded.
func writesSentinel(c cloudconfig.Command) bool {
	return strings.Contains(c.Script, cloudconfig.Sentinel)
}

func stepName(section string, i, n int) string { return fmt.Sprintf("%s %d/%d", section, i+1, n) }

// commands returns a step for each command.
func (b *Bootstrap) commands(section string, commands []cloudconfig.Command) []step {
	var steps []step
	for i, c := range commands {
		name := stepName(section, i, len(commands))
		steps = append(steps, step{
			name:    name,
			recover: func(ctx context.Context, before journal.Step) (bool, error) { return b.recoverCommand(ctx, c, before) },
			run:     func(ctx context.Context, mark string) (int, error) { return b.runCommand(ctx, name, c, mark) },
		})
	}
	return steps
}

// runCommand runs one command in the environment that the previous one left.
func (b *Bootstrap) runCommand(ctx context.Context, name string, c cloudconfig.Command, mark string) (int, error) {
	if isKubeadm(c) {
		if err := snapshot.Take(b.snapshotDir(), resetDirs...); err != nil {
			return 0, fault.New(err, "the files that kubeadm reset deletes can't be saved")
		}
	}
	if err := os.MkdirAll(filepath.Dir(scriptPath), 0o700); err != nil {
		return 0, fault.New(err, "the command can't be written")
	}
	if err := os.WriteFile(scriptPath, []byte(script(c, filepath.Join(b.Journal.Dir(), "environment"), mark)),
		0o600); err != nil {
		return 0, fault.New(err, "the command can't be written")
	}
	defer os.Remove(scriptPath)
	run := command.Command{
		Args: []string{"/bin/sh", scriptPath}, Output: b.Log, Limit: commandLimit, Mark: mark,
		Started: func() { failpoint.Hit("running " + name) },
	}
	err := run.Run(ctx)
	var exit *command.StatusError
	switch {
	case err == nil:
		return 0, nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, command.ErrLimit):
		return 0, fault.New(err, "the command took longer than %s", commandLimit)
	case !errors.As(err, &exit):
		return 0, fault.New(err, "the command can't be started")
	case isKubeadm(c) && exit.Status == notFound:
		return 0, fault.New(err, "%s", b.withoutKubeadm())
	case isKubeadm(c) || writesSentinel(c):
		return 0, fault.New(err, "%s ended with exit status %d", describe(c), exit.Status)
	}
	b.Log.Printf("%s ended with exit status %d", name, exit.Status)
	if err := b.Journal.Note(keyFailed, name); err != nil {
		return 0, &journalError{err}
	}
	return exit.Status, nil
}

// withoutKubeadm says what to do about a host that got kubeadm from neither a bundle nor a package. Pure.
func (b *Bootstrap) withoutKubeadm() string {
	if b.Local || b.Version == "" {
		return "this host has no kubeadm: install it"
	}
	return fmt.Sprintf("this host has no kubeadm, and got no bundle of Kubernetes %s; run on the plane's computer: "+
		"capstan bundle import FILE; or install containerd, kubeadm and kubelet %s on the host", b.Version, b.Version)
}

// describe names a command without quoting it.
func describe(c cloudconfig.Command) string {
	if found := kubeadmCommand.FindStringSubmatch(c.Script); found != nil {
		return "kubeadm " + found[2]
	}
	return "the command"
}

// script returns the text for the shell. cloud-init runs all commands in one shell. Here each command has its own, so
// that the journal knows which ones have finished; a file passes on the environment, the working directory and the
// umask.
func script(c cloudconfig.Command, environment, mark string) string {
	return `capstan_environment=` + cloudconfig.Quote(environment) + `
if [ -r "$capstan_environment" ]; then . "$capstan_environment"; cd "$PWD"; fi
capstan_environment=` + cloudconfig.Quote(environment) + `
export CAPSTAN_RUN=` + mark + `
trap '
	capstan_status=$? capstan_mask=$(umask)
	umask 077
	export PWD
	{ export -p; echo "umask $capstan_mask"; } > "$capstan_environment.new" && mv -f "$capstan_environment.new" "$capstan_environment"
	exit $capstan_status
' EXIT
set -a
` + c.Script + "\n"
}

func (b *Bootstrap) snapshotDir() string { return filepath.Join(b.Journal.Dir(), "snapshot") }

// kubeadmRan reports whether kubeadm may have started: the snapshot is taken right before that.
func (b *Bootstrap) kubeadmRan() bool {
	_, err := os.Stat(b.snapshotDir())
	return err == nil
}
