package clean

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/agent/apply"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/regular"
)

const fstab = "/etc/fstab"

// unmount unmounts what the machine mounted: pods' volumes, network namespaces, and the mounts of its bootstrap data.
func (c *Cleaner) unmount(ctx context.Context) error {
	var errs []error
	for _, device := range c.Journal.Notes(apply.KeySwap) {
		errs = append(errs, c.run(ctx, "swapoff", device))
	}
	pauses := backoff.Backoff{First: 50 * time.Millisecond, Max: time.Second}
	for range 5 { // killed processes hold their mounts a moment longer
		mounts, err := c.machineMounts()
		if err != nil {
			return err
		}
		if len(mounts) == 0 {
			break
		}
		errs = errs[:0]
		for _, m := range slices.Backward(mounts) {
			if err := unix.Unmount(m.Mountpoint, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
				errs = append(errs, fmt.Errorf("unmounting %s: %w", m.Mountpoint, err))
			}
		}
		if len(errs) > 0 && pauses.Wait(ctx) != nil {
			break
		}
	}
	if text, err := regular.Read(fstab, 1<<20); err == nil {
		if cleaned := apply.RemoveMounts(string(text)); cleaned != string(text) {
			errs = append(errs, atomicfile.Write(fstab, []byte(cleaned), 0o644))
		}
	}
	return errors.Join(errs...)
}

// machineMounts returns the mounts that the machine made, in the order in which they were mounted.
func (c *Cleaner) machineMounts() ([]*mountinfo.Info, error) {
	all, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, err
	}
	noted := c.Journal.Notes(apply.KeyMount)
	return slices.DeleteFunc(all, func(m *mountinfo.Info) bool {
		for _, point := range noted {
			point = filepath.Clean(point)
			if m.Mountpoint == point || strings.HasPrefix(m.Mountpoint, point+"/") {
				return false
			}
		}
		return !slices.ContainsFunc(mountPrefixes, func(p string) bool { return strings.HasPrefix(m.Mountpoint, p) })
	}), nil
}

// wipeDisks removes the file systems and partitions that the bootstrap data created, so that the next machine does not
// mistake them for its own.
func (c *Cleaner) wipeDisks(ctx context.Context) error {
	devices, _, err := apply.Made(ctx, c.Journal)
	errs := []error{err}
	for _, device := range slices.Backward(devices) {
		errs = append(errs, c.run(ctx, "wipefs", "--all", device))
	}
	return errors.Join(errs...)
}
