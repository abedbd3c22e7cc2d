package local

import (
	"context"
	"errors"
	"io/fs"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/plane/seal"
)

// rotateKeys asks the next start of the plane for a new key for Secrets, and stops a plane that runs, which would not
// see that. If it is cut short, the request stays: the next start makes the key.
func (s *starter) rotateKeys(ctx context.Context) error {
	_, err := seal.Request(s.home.Encryption())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no plane was started here yet, or an earlier version's: this start makes the first key
	}
	if err != nil {
		return err
	}
	return s.progress.step("plane stopped for its new key", func(func(string)) error {
		docked := dock.Connect(string(s.home))
		defer docked.Close()
		if err := docked.StopUnit(ctx, planeUnit); !errors.Is(err, dock.ErrNotRunning) {
			return err
		}
		return nil
	})
}
