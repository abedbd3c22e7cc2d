package baseline

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// readers is how many directories are read at once: a disk with queues serves many requests in the time of one.
	readers = 6
	// ahead bounds the number of entries in memory that the walk has not reached yet.
	ahead = 8 << 10
)

// walk calls the function see for each file of the system that counts, in order. Directories are read ahead of the
// walk, several at once. Only one goroutine calls see.
func (h Host) walk(ctx context.Context, see func(entry) error) error {
	skipped, err := h.skipped()
	if err != nil {
		return err
	}
	if slices.Contains(skipped["/"], "/") {
		return nil
	}
	top, err := examine(unix.AT_FDCWD, "", h.Root, trees{})
	if err != nil {
		return fmt.Errorf("looking at %s: %w", h.Root, err)
	}
	top.path = "/"
	if err := see(top); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &walker{reader: reader{h: h, skipped: skipped}}
	w.wake.L = &w.mu
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() { w.readAhead(ctx, &reader{h: h, skipped: skipped}) })
	}
	defer func() {
		cancel()
		w.end()
		wg.Wait()
	}()
	return w.visit(ctx, newDirectory(nil, ""), see)
}

// walker reads directories ahead of a walk.
type walker struct {
	reader // the walk's own reader

	mu      sync.Mutex
	wake    sync.Cond
	pending []*directory // directories that nobody has read yet, the next one last
	held    int          // number of entries that were read ahead
	ended   bool
}

// visit calls see for the contents of a directory.
func (w *walker) visit(ctx context.Context, d *directory, see func(entry) error) error {
	if w.take(d) {
		w.read(ctx, d)
		w.push(d)
	} else {
		<-d.ready
		w.release(len(d.items))
	}
	for {
		switch {
		case d.failed != nil:
			return d.failed
		case d.err != nil:
			return d.tolerated()
		}
		path := d.path()
		for n := range d.items {
			i := &d.items[n]
			if err := ctx.Err(); err != nil {
				return err
			}
			if i.counts {
				i.path = join(path, i.name)
				if err := see(i.entry); err != nil {
					return err
				}
			}
			if i.within == nil {
				continue
			}
			if err := w.visit(ctx, i.within, see); err != nil {
				return err
			}
			i.within = nil
		}
		if !d.more() {
			d.items = nil
			return nil
		}
		w.read(ctx, d)
		w.push(d)
	}
}

// take reports whether the caller must read a directory, because nobody has taken it yet.
func (w *walker) take(d *directory) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := d.taken
	d.taken = true
	return !taken
}

// push queues the directories in d for reading.
func (w *walker) push(d *directory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range d.items {
		if within := d.items[len(d.items)-1-n].within; within != nil {
			w.pending = append(w.pending, within)
		}
	}
	w.wake.Broadcast()
}

// release records that the walk has reached this many entries.
func (w *walker) release(entries int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held -= entries
	w.wake.Broadcast()
}

func (w *walker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.wake.Broadcast()
}

// readAhead reads directories until the walk ends.
func (w *walker) readAhead(ctx context.Context, r *reader) {
	for {
		d := w.next()
		if d == nil {
			return
		}
		r.read(ctx, d)
		w.mu.Lock()
		w.held += len(d.items)
		w.mu.Unlock()
		w.push(d)
		close(d.ready)
	}
}

// next waits for and returns the pending directory that the walk reaches first. It returns nil once the walk has ended.
func (w *walker) next() *directory {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for !w.ended && (len(w.pending) == 0 || w.held > ahead) {
			w.wake.Wait()
		}
		if w.ended {
			return nil
		}
		d := w.pending[len(w.pending)-1]
		w.pending[len(w.pending)-1] = nil
		w.pending = w.pending[:len(w.pending)-1]
		if !d.taken {
			d.taken = true
			return d
		}
	}
}
