package clean

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/agent/baseline"
	"github.com/capstan-dev/capstan/internal/backoff"
)

// Directories returns the directories that cleaning deletes with all their contents.
func Directories() []string { return slices.Clone(directories) }

// Comparison says how to compare the host with its state before the claim.
type Comparison struct {
	// Host is the host to examine.
	Host baseline.Host
	// Path is the path of the baseline.
	Path string
	// Digest is the digest of the baseline, as stored in the management cluster.
	Digest string
	// Done is called once the host no longer differs from the baseline.
	Done func() error
}

// settle bounds the wait for processes and sockets that don't come from the machine and go away by themselves: those of
// a system job that happens to run, or of a program that cleaning itself has started.
const settle = 15 * time.Second

// compare finds what differs from the baseline. A missing or replaced baseline proves nothing.
func (c *Cleaner) compare(ctx context.Context) ([]string, error) {
	if c.Comparison == nil {
		return nil, nil
	}
	const remedy = "; reinstall the host"
	digest, err := baseline.Digest(c.Comparison.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []string{"unknown: the baseline of the host is missing, " + c.Comparison.Path + remedy}, nil
	case err != nil:
		return nil, err
	case digest != c.Comparison.Digest:
		return []string{"unknown: the baseline of the host was replaced, " + c.Comparison.Path + remedy}, nil
	}
	host := c.Comparison.Host
	if host.Known, err = c.restored(); err != nil {
		return nil, err
	}
	pauses := backoff.Backoff{First: 100 * time.Millisecond, Max: 3 * time.Second}
	for began := time.Now(); ; {
		found, err := host.Compare(ctx, c.Comparison.Path)
		switch {
		case err != nil:
			return nil, err
		case len(found) == 0:
			return nil, c.Comparison.Done()
		case !baseline.Passing(found) || time.Since(began) > settle:
			return found, nil
		}
		if err := pauses.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// sysctls resets the kernel settings that a node changes, if their earlier values are known.
func (c *Cleaner) sysctls(context.Context) error {
	if c.Comparison == nil {
		return nil
	}
	digest, err := baseline.Digest(c.Comparison.Path)
	if err != nil || digest != c.Comparison.Digest {
		return err // the proof reports a missing or replaced baseline
	}
	return c.Comparison.Host.RestoreSysctls(c.Comparison.Path)
}

// restored returns a function that reports whether a file was restored to its state before the claim.
func (c *Cleaner) restored() (func(string) bool, error) {
	kept := c.undo().Kept()
	changed, err := c.undo().Changed()
	return func(path string) bool { return slices.Contains(kept, path) && !slices.Contains(changed, path) }, err
}
