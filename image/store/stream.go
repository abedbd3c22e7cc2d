//go:build linux

package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/capstan-dev/capstan/image/layer"
)

// maxWindow bounds the memory that a zstd stream may ask for.
const maxWindow = 128 << 20

// layerStream is a packed layer while it is unpacked. Another goroutine reads ahead, decompresses and hashes, so that
// the reader can write files meanwhile.
type layerStream struct {
	file   *os.File
	packed *counted
	diff   hash.Hash
	chunks chan chunk
	free   chan []byte
	stop   chan struct{}
	ended  chan struct{}
	rest   []byte
	held   []byte
	err    error
}

type chunk struct {
	data []byte
	err  error
}

// counted is a reader that counts and hashes.
type counted struct {
	from io.Reader
	n    int64
	sum  hash.Hash
}

// Read reads.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	c.sum.Write(p[:n])
	return n, err
}

// openLayer opens a packed layer.
func (s *Store) openLayer(h v1.Hash) (*layerStream, error) {
	f, err := s.OpenBlob(h)
	if err != nil {
		return nil, err
	}
	l := &layerStream{
		file: f, packed: &counted{from: f, sum: sha256.New()}, diff: sha256.New(),
		chunks: make(chan chunk, 4), free: make(chan []byte, 8), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	from, closer, err := Unpacked(l.packed)
	if err != nil {
		f.Close()
		return nil, err
	}
	go func() {
		defer close(l.ended)
		defer closer()
		l.ahead(from, s.options.Limits)
	}()
	return l, nil
}

// Unpacked returns the decompressed content of a stream, which may be packed by gzip or zstd, or not at all.
func Unpacked(from io.Reader) (io.Reader, func(), error) {
	buffered := bufio.NewReaderSize(from, 256<<10)
	head, _ := buffered.Peek(4) // a shorter stream is not packed
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, nil, layer.Refuse("the layer is damaged: %v", err)
		}
		return z, func() { z.Close() }, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, layer.Refuse("the layer is damaged: %v", err)
		}
		return z, z.Close, nil
	}
	return buffered, func() {}, nil
}

// ahead reads to the end of the stream, within the limits.
func (l *layerStream) ahead(from io.Reader, limits layer.Limits) {
	total := int64(0)
	// In addition to its files' content, a tar archive has 512 bytes and padding for each file.
	most := limits.Bytes + 2048*int64(limits.Entries)
	for {
		var buffer []byte
		select {
		case buffer = <-l.free:
		default:
			buffer = make([]byte, 256<<10)
		}
		n, err := io.ReadFull(from, buffer)
		if err == io.ErrUnexpectedEOF && n > 0 {
			// This is either the end or a truncated stream: the next read decides.
			if _, again := io.ReadFull(from, buffer[n:n+1]); again == io.EOF {
				err = io.EOF
			}
		}
		l.diff.Write(buffer[:n])
		total += int64(n)
		if err == nil && total > most {
			err = layer.Refuse("the layer unpacks to more than %d MiB", most>>20)
		}
		if err == nil && total > layer.FreeRatio && total > l.packed.n*limits.Ratio {
			err = layer.Refuse("%d MiB of the packed layer unpack to more than %d MiB: that is a bomb, not an image",
				l.packed.n>>20, total>>20)
		}
		if err != nil && err != io.EOF && !layer.IsRefused(err) {
			err = layer.Refuse("the layer is damaged: %v", err)
		}
		if err == io.EOF {
			// The digest covers what follows the end of the packed stream, too.
			if _, rest := io.Copy(io.Discard, l.packed); rest != nil {
				err = rest
			}
		}
		select {
		case l.chunks <- chunk{buffer[:n], err}:
		case <-l.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read returns unpacked bytes.
func (l *layerStream) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		if l.held != nil {
			select {
			case l.free <- l.held[:cap(l.held)]:
			default:
			}
		}
		c := <-l.chunks
		l.rest, l.held, l.err = c.data, c.data, c.err
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// sums returns the digests of the packed and the unpacked stream. Call it after the end of the stream.
func (l *layerStream) sums() (packed, diff string) {
	<-l.ended
	return hex.EncodeToString(l.packed.sum.Sum(nil)), hex.EncodeToString(l.diff.Sum(nil))
}

// Close stops reading.
func (l *layerStream) Close() {
	close(l.stop)
	<-l.ended
	l.file.Close()
}
