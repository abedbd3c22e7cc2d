package local

import (
	"context"
	"errors"
	"io/fs"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/plane/seal"
)

// rotateKeys requests a new key for Secrets and stops a running plane, which would not notice the request. The next
// start creates the key, even if rotateKeys is interrupted after the request.
func (s *starter) rotateKeys(ctx context.Context) error {
	_, err := seal.Request(s.home.Encryption())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the first start here, or an earlier version's plane: this start creates the first key
	}
	if err != nil {
		return err
	}
	return s.progress.step("plane stopped to use its new key", func(func(string)) error {
		docked := dock.Connect(string(s.home))
		defer docked.Close()
		if err := docked.StopUnit(ctx, planeUnit); !errors.Is(err, dock.ErrNotRunning) {
			return err
		}
		return nil
	})
}
