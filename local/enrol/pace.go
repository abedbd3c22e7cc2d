package enrol

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

// paceBurst is the maximum number of bytes read at once from a paced file.
const paceBurst = 64 << 10

// A pace limits how fast all files together are read. It is called after n bytes were read, and waits until the limit
// permits n bytes; n is at most paceBurst. A nil pace means no limit.
type pace func(ctx context.Context, n int) error

// newPace returns a limit in bytes per second. Zero means no limit.
func newPace(bandwidth int64) pace {
	if bandwidth <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bandwidth), paceBurst).WaitN
}

// of returns a file that is read at this pace until ctx ends.
func (p pace) of(ctx context.Context, file io.ReadSeeker) io.ReadSeeker {
	if p == nil {
		return file
	}
	return paced{file, ctx, p}
}

// paced is a file that is read at a pace.
type paced struct {
	io.ReadSeeker
	ctx  context.Context
	wait pace
}

// Read implements io.Reader.
func (f paced) Read(b []byte) (int, error) {
	n, err := f.ReadSeeker.Read(b[:min(len(b), paceBurst)])
	if n > 0 {
		if late := f.wait(f.ctx, n); late != nil {
			return 0, late
		}
	}
	return n, err
}
