// Package bootstrap runs the bootstrap data of a claim, step by step, so that the bootstrap converges even if the agent
// or a command is killed at any point.
//
// The journal records when each step starts and finishes. After a crash, Run skips finished steps and repeats the
// interrupted one; the comment on each kind of step says why that is safe. Commands follow cloud-init's rules: they
// share one shell environment, and a failing command does not stop the next one. The exception is the kubeadm command,
// which writes Cluster API's sentinel, the file that says that kubeadm succeeded: if this command fails, the bootstrap
// fails.
package bootstrap

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/agent/apply"
	"github.com/capstan-dev/capstan/agent/cloudconfig"
	"github.com/capstan-dev/capstan/agent/command"
	"github.com/capstan-dev/capstan/agent/fault"
	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/agent/undo"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// LogPath is the file that receives the output of all steps; only root can read it.
const LogPath = "/var/log/capstan/bootstrap.log"

// LogLimit bounds each of the log's two files, in bytes.
const LogLimit = 4 << 20

// UndoDir is the directory, inside the journal's directory, that keeps the originals of files. Deployed hosts use this
// name.
const UndoDir = "originals"

// KeyEnabled is the key of the notes about services that were enabled before the bootstrap.
const KeyEnabled = "enabled"

// keyData is the key of the note with the fingerprint of the data.
const keyData = "data"

// Bootstrap is the bootstrap of one claim.
type Bootstrap struct {
	// Journal is the journal of the claim.
	Journal *journal.Journal
	// Log receives all output.
	Log *command.Log
	// Local is true on a host that is a namespace of another machine.
	Local bool
	// BundlesDir is the directory of the bundles. Version is the version of the bundle to install; empty means none.
	BundlesDir, Version string
	// Hostname is the name to give a local host.
	Hostname string
	// Format and Data are the bootstrap data; Metadata are the values that it may refer to.
	Format   string
	Data     []byte
	Metadata map[string]any
	// Step is called with the name of each step before the step runs.
	Step func(name string)
}

// step is one step of a bootstrap.
type step struct {
	name string
	// always marks a cheap and harmless step that runs even if it has finished before, because a reboot may have undone
	// it.
	always bool
	// recover is called before an interrupted step is repeated. If it returns done, the step is not repeated.
	recover func(ctx context.Context, before journal.Step) (done bool, err error)
	// run runs the step; mark marks the processes that it starts. status is the exit status of a command that failed
	// without failing the step.
	run func(ctx context.Context, mark string) (status int, err error)
}

// Run runs the remaining steps and records the outcome in the journal. It returns nil even if the bootstrap failed,
// because that is an outcome. An error means that there is no outcome yet, because ctx ended or the journal can't be
// written; the caller must call Run again.
func (b *Bootstrap) Run(ctx context.Context) error {
	if b.Journal.Outcome().Ended {
		return nil
	}
	current := "bootstrap data"
	err := b.run(ctx, &current)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var broken *journalError
	if errors.As(err, &broken) {
		return err
	}
	if err != nil {
		b.Log.Printf("%s failed: %v", current, err)
		return b.Journal.Fail(current, fault.Text(err, "it failed")+"; see "+b.Log.Path()+" on the host")
	}
	b.Log.Printf("the bootstrap succeeded")
	return b.Journal.Succeed(b.remarks())
}

// journalError says that the journal could not be written, so the bootstrap must not go on.
type journalError struct{ error }

func (e *journalError) Unwrap() error { return e.error }

func (b *Bootstrap) run(ctx context.Context, current *string) error {
	config, err := b.parse()
	if err != nil {
		return err
	}
	if !b.Journal.Began() {
		// Otherwise a sentinel that an earlier machine left would count as ours.
		_ = os.Remove(cloudconfig.Sentinel)
	}
	for _, s := range b.steps(config) {
		*current = s.name
		if err := b.runStep(ctx, s); err != nil {
			return err
		}
	}
	return b.verdict(config, current)
}

// parse parses the data and makes sure that it is the same as before a crash.
func (b *Bootstrap) parse() (*cloudconfig.Config, error) {
	if b.Format != "" && b.Format != "cloud-config" {
		return nil, fault.New(nil,
			"the format of the bootstrap data is not supported; set the bootstrap provider's format to cloud-config")
	}
	sum := sha256.Sum256(b.Data)
	fingerprint := hex.EncodeToString(sum[:])
	if known := b.Journal.Notes(keyData); len(known) > 0 && known[0] != fingerprint {
		return nil, fault.New(nil, "the bootstrap data changed while the agent ran it")
	}
	if err := b.Journal.Note(keyData, fingerprint); err != nil {
		return nil, &journalError{err}
	}
	return cloudconfig.Parse(b.Data, cloudconfig.Variables(b.Metadata))
}

func (b *Bootstrap) runStep(ctx context.Context, s step) error {
	before := b.Journal.Step(s.name)
	if before.Finished && !s.always {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.Step(s.name)
	failpoint.Hit("before " + s.name)
	if before.Starts > 0 && !before.Finished && s.recover != nil {
		done, err := s.recover(ctx, before)
		if err != nil {
			return err
		}
		if done {
			return b.finish(s.name, 0)
		}
	}
	mark := rand.Text()
	if err := b.Journal.Start(s.name, mark); err != nil {
		return &journalError{err}
	}
	failpoint.Hit("started " + s.name)
	b.Log.Printf("step %s", s.name)
	status, err := s.run(ctx, mark)
	if err != nil {
		return err
	}
	failpoint.Hit("ran " + s.name)
	return b.finish(s.name, status)
}

func (b *Bootstrap) finish(name string, status int) error {
	if err := b.Journal.Finish(name, status); err != nil {
		return &journalError{err}
	}
	failpoint.Hit("finished " + name)
	return nil
}

// steps returns all steps, in the order in which cloud-init runs them.
func (b *Bootstrap) steps(c *cloudconfig.Config) []step {
	host := b.host()
	simple := func(name string, do func(context.Context) error) step {
		return step{name: name, run: func(ctx context.Context, _ string) (int, error) { return 0, do(ctx) }}
	}
	steps := b.prepare(c)
	steps = append(steps, b.commands("bootcmd", c.BootCommands)...)
	if early := selectFiles(c.Files, false); len(early) > 0 {
		steps = append(steps, simple("write_files", func(context.Context) error { return host.Files("write_files", early) }))
		steps = append(steps, b.restoreFiles(host, early))
	}
	if len(c.Disks) > 0 {
		steps = append(steps, simple("disk_setup", func(ctx context.Context) error { return host.Disks(ctx, c.Disks) }))
	}
	if len(c.Filesystems) > 0 {
		steps = append(steps,
			simple("fs_setup", func(ctx context.Context) error { return host.Filesystems(ctx, c.Filesystems) }))
	}
	if len(c.Mounts) > 0 {
		mounts := simple("mounts", func(ctx context.Context) error { return host.Mounts(ctx, c.Mounts) })
		mounts.always = true
		steps = append(steps, mounts)
	}
	if len(c.Users) > 0 {
		steps = append(steps, simple("users", func(ctx context.Context) error { return host.Users(ctx, c.Users) }))
	}
	if c.NTP != nil {
		steps = append(steps, simple("ntp", func(ctx context.Context) error { return host.NTP(ctx, c.NTP) }))
	}
	if late := selectFiles(c.Files, true); len(late) > 0 {
		steps = append(steps, simple("write_files deferred",
			func(context.Context) error { return host.Files("write_files deferred", late) }))
	}
	return append(steps, b.commands("runcmd", c.Commands)...)
}

func (b *Bootstrap) host() *apply.Host {
	return &apply.Host{
		Local: b.Local, Log: b.Log, Notes: b.Journal,
		Undo: &undo.Keeper{Dir: filepath.Join(b.Journal.Dir(), UndoDir), Notes: b.Journal},
	}
}

func selectFiles(files []cloudconfig.File, deferred bool) []cloudconfig.File {
	var selected []cloudconfig.File
	for _, f := range files {
		if f.Defer == deferred {
			selected = append(selected, f)
		}
	}
	return selected
}

// restoreFiles rewrites missing files, because /run is empty after a reboot. It leaves existing ones alone, because
// commands may have changed them.
func (b *Bootstrap) restoreFiles(host *apply.Host, files []cloudconfig.File) step {
	return step{name: "write_files again", always: true, run: func(context.Context, string) (int, error) {
		if b.kubeadmRan() {
			return 0, nil // from then on the snapshot holds what kubeadm needs
		}
		var gone []cloudconfig.File
		for _, f := range files {
			if _, err := os.Stat(f.Path); errors.Is(err, os.ErrNotExist) {
				gone = append(gone, f)
			}
		}
		return 0, host.Files("write_files again", gone)
	}}
}

// verdict returns an error if the data did not achieve its purpose. The status of each command is in the journal.
func (b *Bootstrap) verdict(c *cloudconfig.Config, current *string) error {
	for i, command := range c.Commands {
		if writesSentinel(command) {
			return nil // its failure would have stopped the bootstrap already
		}
		name := stepName("runcmd", i, len(c.Commands))
		if status := b.Journal.Step(name).Status; status != 0 && i == len(c.Commands)-1 {
			*current = name
			return fault.New(nil, "the last command ended with exit status %d", status)
		}
	}
	return nil
}

// remarks lists the commands that failed without failing the bootstrap.
func (b *Bootstrap) remarks() string {
	failed := b.Journal.Notes(keyFailed)
	if len(failed) == 0 {
		return ""
	}
	return fmt.Sprintf("%d commands failed, which the agent ignores, as cloud-init does: first %s; see %s on the host",
		len(failed), failed[0], b.Log.Path())
}
