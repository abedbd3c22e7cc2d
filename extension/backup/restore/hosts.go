package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/backup/member"
	"github.com/capstan-dev/capstan/internal/hint"
)

// Hosts performs the operations of a restore on hosts. A host is named by its CapstanHost. Each operation can be
// repeated, whether it failed, was interrupted or succeeded.
type Hosts interface {
	// Member reports whether etcd is set up on a host, running or stopped. It returns an error if the host's files are
	// inaccessible.
	Member(ctx context.Context, host string) (bool, error)
	// Stop stops the static pods of etcd and the API server and returns when no process has the data open, or ctx is
	// done. After an error, Start undoes it.
	Stop(ctx context.Context, host string) error
	// Replace replaces the data of a stopped member with a snapshot, a file on this machine. It returns the path of the
	// old data on the host. After an error the member still has its old data, unless the error is
	// [member.ErrWithoutData].
	Replace(ctx context.Context, host, snapshot string) (kept string, err error)
	// Start restarts both pods with the data in place. It does not wait for them.
	Start(ctx context.Context, host string) error
}

// Directories implements [Hosts] for hosts whose files are on this machine, such as local hosts. All fields are
// required.
type Directories struct {
	// Root returns the root directory of a host.
	Root func(host string) string
	// Tool creates an etcd data directory from a snapshot.
	Tool backup.Tool
}

// Member implements [Hosts].
func (d Directories) Member(_ context.Context, host string) (bool, error) {
	root := d.Root(host)
	if _, err := os.Stat(root); err != nil {
		return false, hint.Errorf("docs/backup.md describes the steps for owned hosts",
			"host %s is not a local host: its files are not here", host)
	}
	_, err := member.Read(root)
	if errors.Is(err, member.ErrNone) {
		return false, nil
	}
	return err == nil, onHost(host, err)
}

// Stop implements [Hosts].
func (d Directories) Stop(ctx context.Context, host string) error {
	m, err := member.Read(d.Root(host))
	if err == nil {
		err = m.Stop(ctx)
	}
	return onHost(host, err)
}

// Replace implements [Hosts].
func (d Directories) Replace(ctx context.Context, host, snapshot string) (kept string, err error) {
	m, err := member.Read(d.Root(host))
	if err != nil {
		return "", onHost(host, err)
	}
	return m.Replace(func(directory string) error {
		return d.Tool.Restore(ctx, snapshot, directory, backup.Identity{Name: m.Name, PeerURL: m.PeerURL})
	}, time.Now())
}

// Start implements [Hosts].
func (d Directories) Start(_ context.Context, host string) error {
	m, err := member.Read(d.Root(host))
	if err == nil {
		err = m.Start()
	}
	return onHost(host, err)
}

// onHost adds the host to an error.
func onHost(host string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("host %s: %w", host, err)
}
