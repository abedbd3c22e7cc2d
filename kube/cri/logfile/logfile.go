// Package logfile writes container logs in the format that the kubelet reads: each line of output becomes a line with
// time, stream and a tag that says whether it is complete, such as "2006-01-02T15:04:05.999999999Z stdout F message".
// It reopens the file after the kubelet rotated it.
package logfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Stream is one of a container's two outputs.
type Stream string

// The streams of a container.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// MaxLine is the length in bytes at which a line is split, as in other runtimes.
const MaxLine = 16 << 10

// followBuffer is how many chunks a follower may lag behind before it loses some.
const followBuffer = 64

// Log is the log of one container. It is safe for concurrent use. Without a file (empty path) it discards everything.
type Log struct {
	path string
	now  func() time.Time

	mu        sync.Mutex
	file      *os.File
	closed    bool
	followers map[chan Chunk]struct{}
}

// Chunk is a piece of output for a follower.
type Chunk struct {
	Stream Stream
	Data   []byte
}

// Open opens the log at path and creates its directory. It appends to existing content. An empty path discards
// everything.
func Open(path string) (*Log, error) {
	l := &Log{path: path, now: time.Now, followers: map[chan Chunk]struct{}{}}
	if err := l.Reopen(); err != nil {
		return nil, err
	}
	return l, nil
}

// Reopen reopens the path after the file was moved away. On failure it keeps using the old file.
func (l *Log) Reopen() error {
	if l.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return fmt.Errorf("making the log directory: %w", err)
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errors.Join(os.ErrClosed, f.Close())
	}
	old := l.file
	l.file = f
	if old != nil {
		return old.Close()
	}
	return nil
}

// Close closes the file and the channels of all followers. Later writes are discarded.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for f := range l.followers {
		close(f)
	}
	l.followers = nil
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// Follow returns a channel of what is written from now on. Calling stop or closing the log closes the channel. A slow
// reader loses chunks, because a container must never wait for a reader.
func (l *Log) Follow() (chunks <-chan Chunk, stop func()) {
	f := make(chan Chunk, followBuffer)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		close(f)
		return f, func() {}
	}
	l.followers[f] = struct{}{}
	return f, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, ok := l.followers[f]; ok {
			delete(l.followers, f)
			close(f)
		}
	}
}

// Line writes one whole line.
func (l *Log) Line(s Stream, line string) error {
	l.follow(s, []byte(line+"\n"))
	return l.write(s, []byte(line), true)
}

// follow passes output to followers, which may keep it.
func (l *Log) follow(s Stream, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for f := range l.followers {
		select {
		case f <- Chunk{s, bytes.Clone(data)}:
		default:
		}
	}
}

// tee passes input to followers as soon as it is read: a prompt has no end of line.
type tee struct {
	io.Reader
	log    *Log
	stream Stream
}

// Read implements io.Reader.
func (t tee) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if n > 0 {
		t.log.follow(t.stream, p[:n])
	}
	return n, err
}

// Copy reads r to its end and writes it line by line, splitting lines longer than MaxLine. After a failed write, such
// as on a full disk, it keeps reading, because the container would otherwise block in its own write. Copy returns the
// first write error at the end.
func (l *Log) Copy(s Stream, r io.Reader) error {
	br := bufio.NewReaderSize(tee{r, l, s}, MaxLine)
	var failed error
	for {
		line, err := br.ReadSlice('\n')
		if len(line) > 0 {
			// Without an end of line, the very last line is partial, too: readers add an end of line to complete lines.
			text, whole := bytes.CutSuffix(line, []byte{'\n'})
			if werr := l.write(s, text, whole); failed == nil {
				failed = werr
			}
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return failed
		default:
			return errors.Join(failed, fmt.Errorf("reading %s: %w", s, err))
		}
	}
}

func (l *Log) write(s Stream, text []byte, whole bool) error {
	tag := byte('P')
	if whole {
		tag = 'F'
	}
	entry := make([]byte, 0, len(text)+48)
	entry = l.now().UTC().AppendFormat(entry, time.RFC3339Nano)
	entry = append(entry, ' ')
	entry = append(entry, s...)
	entry = append(entry, ' ', tag, ' ')
	entry = append(entry, text...)
	entry = append(entry, '\n')

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.closed {
		return nil
	}
	if _, err := l.file.Write(entry); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}
