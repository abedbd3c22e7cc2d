//go:build linux

package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/image/layer"
	"github.com/capstan-dev/capstan/internal/failpoint"
)

// blobPath returns the path of a blob; the caller must have validated h, as [v1.NewHash] does.
func (s *Store) blobPath(h v1.Hash) string { return s.path("blobs", "sha256", h.Hex) }

// HasBlob returns the size of a blob and reports whether it exists.
func (s *Store) HasBlob(h v1.Hash) (int64, bool) {
	info, err := os.Lstat(s.blobPath(h))
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// Ingest adds a blob and returns its digest and size. The caller holds [Store.Use].
func (s *Store) Ingest(ctx context.Context, from io.Reader) (v1.Hash, int64, error) {
	fail := func(err error) (v1.Hash, int64, error) {
		return v1.Hash{}, 0, fmt.Errorf("writing a blob: %w", full(err, s.options.Dir))
	}
	if err := s.room(); err != nil {
		return fail(err)
	}
	f, err := os.CreateTemp(s.path("work"), "blob-")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	sum := sha256.New()
	from = &metered{ctx: ctx, from: from, room: s.room}
	size, err := io.CopyBuffer(onlyWriter{io.MultiWriter(f, sum)}, io.LimitReader(from, maxBlob+1), make([]byte, 256<<10))
	if err == nil && size > maxBlob {
		err = layer.Refuse("a blob has more than %d GiB", maxBlob>>30)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return fail(err)
	}
	h := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	return h, size, s.keep(f.Name(), h)
}

// onlyWriter hides all methods except Write, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// keep moves a finished file to the blobs.
func (s *Store) keep(file string, h v1.Hash) error {
	failpoint.Hit("blob written")
	if err := os.Rename(file, s.blobPath(h)); err != nil {
		return fmt.Errorf("keeping blob %s: %w", h, err)
	}
	return nil
}

// PutBlob adds a small blob.
func (s *Store) PutBlob(ctx context.Context, data []byte) (v1.Hash, error) {
	h, _, err := s.Ingest(ctx, bytes.NewReader(data))
	return h, err
}

// OpenBlob opens a blob for reading.
func (s *Store) OpenBlob(h v1.Hash) (*os.File, error) {
	f, err := os.Open(s.blobPath(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, image.Errorf(image.CodeNotFound, "load or pull the image again", "blob %s is missing", h)
	}
	return f, err
}

// ReadBlob returns a small blob after checking its digest. It removes a damaged blob.
func (s *Store) ReadBlob(h v1.Hash, most int64) ([]byte, error) {
	f, err := s.OpenBlob(h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", h, err)
	}
	if int64(len(data)) > most {
		return nil, layer.Refuse("blob %s has more than %d bytes", h, most)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != h.Hex {
		return nil, s.damaged(h)
	}
	return data, nil
}

// damaged removes a blob whose content does not match its digest.
func (s *Store) damaged(h v1.Hash) error {
	err := image.Errorf(image.CodeFailed, "load or pull the image again",
		"blob %s was damaged on the disk: it was removed", h)
	return errors.Join(err, os.Remove(s.blobPath(h)))
}

// verify checks a blob; it removes a damaged one and returns an error.
func (s *Store) verify(h v1.Hash) error {
	f, err := s.OpenBlob(h)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("reading blob %s: %w", h, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != h.Hex {
		return s.damaged(h)
	}
	return nil
}

// Origins returns the registries that served a packed layer.
func (s *Store) Origins(h v1.Hash) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.state.Blobs[h.String()].Origins)
}

// From records that a registry served a blob. The record is saved with the image.
func (s *Store) From(h v1.Hash, registry string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.state.Blobs[h.String()]
	if registry != "" && !slices.Contains(b.Origins, registry) && len(b.Origins) < 64 {
		b.Origins = append(slices.Clone(b.Origins), registry)
	}
	s.state.Blobs[h.String()] = b
}

// metered is a reader that stops when its context ends or the disk is full.
type metered struct {
	ctx   context.Context
	from  io.Reader
	room  func() error
	since int64
}

// Read reads, or returns the reason to stop.
func (m *metered) Read(p []byte) (int, error) {
	if err := context.Cause(m.ctx); err != nil {
		return 0, err
	}
	if m.since >= 16<<20 {
		m.since = 0
		if err := m.room(); err != nil {
			return 0, err
		}
	}
	n, err := m.from.Read(p)
	m.since += int64(n)
	return n, err
}

// Partial is a partly downloaded blob.
type Partial struct {
	store *Store
	hash  v1.Hash
	file  *os.File
	// Size is the number of bytes so far.
	Size int64
}

// Partial opens the partial download of a blob. Only one caller at a time may use it.
func (s *Store) Partial(h v1.Hash) (*Partial, error) {
	f, err := os.OpenFile(s.path("work", "partial", h.Hex), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("beginning a download: %w", full(err, s.options.Dir))
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("beginning a download: %w", err)
	}
	return &Partial{store: s, hash: h, file: f, Size: info.Size()}, nil
}

// Append adds the next bytes. The blob may grow to limit bytes in total. Append keeps bytes written before an error.
func (p *Partial) Append(ctx context.Context, from io.Reader, limit int64) error {
	if _, err := p.file.Seek(p.Size, io.SeekStart); err != nil {
		return err
	}
	if err := p.store.room(); err != nil {
		return err
	}
	from = &metered{ctx: ctx, from: from, room: p.store.room}
	n, err := io.Copy(onlyWriter{p.file}, io.LimitReader(from, limit-p.Size+1))
	p.Size += n
	if err == nil && p.Size > limit {
		return layer.Refuse("blob %s is larger than the %d bytes that its manifest says", p.hash, limit)
	}
	return full(err, p.store.options.Dir)
}

// Restart discards what was downloaded.
func (p *Partial) Restart() error {
	p.Size = 0
	return p.file.Truncate(0)
}

// ErrDigest reports that a download does not match its digest.
var ErrDigest = errors.New("its content does not have its digest")

// Finish makes the download a blob if its digest matches. Otherwise Finish discards it and returns [ErrDigest].
func (p *Partial) Finish() error {
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, onlyReader{p.file}, make([]byte, 256<<10)); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.hash.Hex {
		return errors.Join(ErrDigest, p.Restart())
	}
	return p.store.keep(p.file.Name(), p.hash)
}

type onlyReader struct{ io.Reader }

// Close keeps the partial download for the next attempt.
func (p *Partial) Close() error { return p.file.Close() }
