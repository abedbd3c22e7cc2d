//go:build linux

package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/image/store"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// Bounds of a download.
const (
	maxFutile = 5  // consecutive attempts that bring no bytes
	maxTries  = 50 // attempts in total
	stallTime = time.Minute
)

// blob makes sure that a blob is in the store and that the registry serves it to this credential.
func (p *pull) blob(ctx context.Context, d v1.Descriptor) error {
	unlock, err := p.puller.locks.lock(ctx, d.Digest.String())
	if err != nil {
		return err
	}
	defer unlock()
	if size, is := p.puller.store.HasBlob(d.Digest); is && size == d.Size {
		if slices.Contains(p.puller.store.Origins(d.Digest), p.endpoint) {
			if served, err := p.serves(ctx, d); err != nil {
				return err
			} else if served {
				p.got(d.Size)
				return nil
			}
		}
	}
	for again := false; ; again = true {
		err := p.fetch(ctx, d)
		if errors.Is(err, store.ErrDigest) && !again {
			continue // the partial download was damaged, or the connection altered it
		}
		if errors.Is(err, store.ErrDigest) {
			return layer.Refuse("registry %s serves content for blob %s that does not match its digest", p.endpoint, d.Digest)
		}
		if err == nil {
			p.puller.store.From(d.Digest, p.endpoint)
		}
		return err
	}
}

// serves asks the registry whether it has a blob, without fetching the content.
func (p *pull) serves(ctx context.Context, d v1.Descriptor) (bool, error) {
	req, err := p.request(ctx, http.MethodHead, "blobs", d.Digest.String())
	if err != nil {
		return false, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK, nil
}

// fetch downloads a blob, and resumes where the last attempt stopped.
func (p *pull) fetch(ctx context.Context, d v1.Descriptor) error {
	part, err := p.puller.store.Partial(d.Digest)
	if err != nil {
		return err
	}
	defer part.Close()
	if part.Size > d.Size {
		if err := part.Restart(); err != nil {
			return err
		}
	}
	pauses := backoff.Backoff{First: p.puller.first(), Max: 10 * time.Second, Spread: 0.2}
	futile := 0
	for try := 0; part.Size < d.Size || d.Size == 0 && try == 0; try++ {
		before := part.Size
		err := p.piece(ctx, d, part)
		p.got(max(part.Size-before, 0))
		failpoint.Hit("piece fetched")
		if err == nil && part.Size == d.Size {
			break
		}
		if err == nil {
			err = fmt.Errorf("the connection ended after %d of %d bytes", part.Size, d.Size)
		}
		if part.Size > before {
			futile = 0
		} else {
			futile++
		}
		if ctx.Err() != nil || final(err) || futile >= maxFutile || try >= maxTries {
			return fmt.Errorf("fetching blob %s: %w", d.Digest, err)
		}
		if backoff.Sleep(ctx, pauses.Next()) != nil {
			return ctx.Err()
		}
	}
	return part.Finish()
}

// final reports whether it is pointless to retry after err.
func final(err error) bool {
	var answer *transport.Error
	var typed *image.Error
	if errors.As(err, &answer) {
		return !isTemporary(answer.StatusCode)
	}
	return layer.IsRefused(err) || errors.As(err, &typed)
}

// piece fetches as much of the missing part as the connection delivers.
func (p *pull) piece(ctx context.Context, d v1.Descriptor, part *store.Partial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := p.request(ctx, http.MethodGet, "blobs", d.Digest.String())
	if err != nil {
		return err
	}
	if part.Size > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", part.Size))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusPartialContent:
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", part.Size)) {
			return errors.Join(errors.New("the registry serves a different part from the one requested"), part.Restart())
		}
	case http.StatusOK:
		if err := part.Restart(); err != nil {
			return err
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(errors.New("the registry does not have the missing part of the blob"), part.Restart())
	default:
		return transport.CheckError(resp, http.StatusOK)
	}
	stall := time.AfterFunc(stallTime, func() { cancel(errors.New("nothing has arrived for a minute")) })
	defer stall.Stop()
	return part.Append(ctx, &watched{resp.Body, stall}, d.Size)
}

// watched is a reader that extends a deadline with each read.
type watched struct {
	io.Reader
	stall *time.Timer
}

// Read reads and extends the deadline.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.stall.Reset(stallTime)
	}
	return n, err
}

// locks is a set of locks by name.
type locks struct {
	mu   sync.Mutex
	held map[string]*held
}

type held struct {
	turn  chan struct{}
	count int
}

// lock waits for the lock of key.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*held{}
	}
	h := l.held[key]
	if h == nil {
		h = &held{turn: make(chan struct{}, 1)}
		l.held[key] = h
	}
	h.count++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.count--; h.count == 0 {
			delete(l.held, key)
		}
	}
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
