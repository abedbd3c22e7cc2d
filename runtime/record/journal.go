package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

const (
	// DefaultSize is the size in bytes at which a journal starts its next file: about 4000 calls.
	DefaultSize = 2 << 20
	// maxText bounds the message and the error of a call in the journal, in bytes.
	maxText = 4 << 10
	// maxLine exceeds any line that Append writes: every byte of its strings may take six in JSON.
	maxLine = 128 << 10
	// OldSuffix is appended to the path of a journal to form the path of its previous file.
	OldSuffix = ".1"
)

// Journal appends calls to a file. When the file reaches its maximum size, it is renamed to its path with [OldSuffix]
// and replaces the previous one, so a journal never has more than two files. All methods are safe for concurrent use.
type Journal struct {
	path string
	size int64

	mu      sync.Mutex
	file    *os.File
	written int64
}

// Open opens the journal at this path, or creates it with mode 0600. A size of 0 means [DefaultSize]. If the last
// process was killed in the middle of a line, Open terminates that line, so that no other is lost. Only one process
// may append at a time.
func Open(path string, size int64) (*Journal, error) {
	if size < 0 {
		return nil, fmt.Errorf("opening the journal %s: a size of %d bytes makes no sense", path, size)
	}
	if size == 0 {
		size = DefaultSize
	}
	j := &Journal{path: path, size: size}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("opening the journal %s: %w", path, err)
	}
	return j, nil
}

func (j *Journal) open() error {
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	end, err := endLine(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.written = file, end
	return nil
}

// endLine makes sure that the file ends with a newline, and returns its length.
func endLine(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, errors.New("it is not a regular file")
	}
	length := info.Size()
	if length == 0 {
		return 0, nil
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, length-1); err != nil {
		return 0, err
	}
	if last[0] == '\n' {
		return length, nil
	}
	n, err := file.Write([]byte{'\n'})
	return length + int64(n), err
}

// Append writes one call and shortens strings of more than 4 KiB. It returns when the operating system has the line; a
// crash of the machine may lose the last ones.
func (j *Journal) Append(call Call) error {
	call.Message, call.PassedBy = clip(call.Message), clip(call.PassedBy)
	if call.Err != nil {
		call.Err = errors.New(clip(call.Err.Error()))
	}
	data, err := json.Marshal(call)
	if err != nil {
		return fmt.Errorf("appending to the journal %s: %w", j.path, err)
	}
	data = append(data, '\n')

	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.append(data); err != nil {
		return fmt.Errorf("appending to the journal %s: %w", j.path, err)
	}
	return nil
}

func (j *Journal) append(data []byte) error {
	if j.file == nil {
		return fs.ErrClosed
	}
	if j.written > 0 && j.written+int64(len(data)) > j.size {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	n, err := j.file.Write(data)
	j.written += int64(n)
	if err != nil && n > 0 {
		// A full disk may cut the line. Without a newline, the next line would be lost too once there is room.
		if end, endErr := endLine(j.file); endErr == nil {
			j.written = end
		}
	}
	return err
}

func (j *Journal) rotate() error {
	// It may be renamed already, if the last rotation failed between its two steps.
	if err := os.Rename(j.path, j.path+OldSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := j.file
	if err := j.open(); err != nil {
		return err
	}
	return old.Close()
}

// Close closes the file. Appending after that is an error.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// Read returns the calls in the journal at this path, oldest first. It skips lines that it can't read. A journal that
// does not exist has no calls.
func Read(path string) ([]Call, error) {
	// The current file first: if it is renamed between the two reads, it is found twice but never missed.
	current, err := openIfExists(path)
	if err != nil {
		return nil, fmt.Errorf("reading the journal %s: %w", path, err)
	}
	defer closeFile(current)
	old, err := openIfExists(path + OldSuffix)
	if err != nil {
		return nil, fmt.Errorf("reading the journal %s: %w", path, err)
	}
	defer closeFile(old)
	if sameFile(current, old) {
		current = nil
	}
	var calls []Call
	for _, file := range []*os.File{old, current} {
		if file == nil {
			continue
		}
		if calls, err = readLines(file, calls); err != nil {
			return nil, fmt.Errorf("reading the journal %s: %w", path, err)
		}
	}
	return calls, nil
}

func readLines(from io.Reader, calls []Call) ([]Call, error) {
	reader := bufio.NewReaderSize(from, maxLine)
	for skipping := false; ; {
		text, err := reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) { // not written by Append
			skipping = true
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		// A line without a newline may still be being written, so it may be cut in the middle of a number.
		if whole := err == nil && !skipping; whole && len(bytes.TrimSpace(text)) > 0 {
			var call Call
			if json.Unmarshal(text, &call) == nil && call.Hook != "" {
				calls = append(calls, call)
			}
		}
		if err != nil {
			return calls, nil
		}
		skipping = false
	}
}

func openIfExists(path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return file, err
}

func closeFile(file *os.File) {
	if file != nil {
		_ = file.Close() // it was only read
	}
}

func sameFile(a, b *os.File) bool {
	if a == nil || b == nil {
		return false
	}
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return string(bytes.ToValidUTF8([]byte(text[:maxText]), nil)) + "…"
}
