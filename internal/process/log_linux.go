package process

import (
	"bytes"
	"strings"
	"sync"

	"github.com/capstan-dev/capstan/internal/logfile"
)

// lineLimit is the maximum length of a remembered line, in bytes.
const lineLimit = 400

// childLog writes a child's output to a file of limited size and remembers its last lines.
type childLog struct {
	path string
	file *logfile.File // nil: only the last lines are kept

	mu      sync.Mutex
	last    [][]byte // ring of the last lines, oldest first
	partial []byte
}

// openLog opens path for appending. With an empty path, only the last lines are kept.
func openLog(path string, limit int64) (*childLog, error) {
	l := &childLog{path: path}
	if path == "" {
		return l, nil
	}
	file, err := logfile.Open(path, limit)
	if err != nil {
		return nil, err
	}
	l.file = file
	return l, nil
}

// Write never fails: a full disk must only stop the log, not the child.
func (l *childLog) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remember(data)
	if l.file != nil {
		return l.file.Write(data)
	}
	return len(data), nil
}

func (l *childLog) remember(data []byte) {
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		if room := lineLimit - len(l.partial); room > 0 {
			l.partial = append(l.partial, line[:min(room, len(line))]...)
		}
		if ended {
			l.keep()
		}
		data = rest
	}
}

func (l *childLog) keep() {
	if len(bytes.TrimSpace(l.partial)) > 0 {
		l.last = append(l.last, bytes.Clone(l.partial))
		if len(l.last) > tailLines {
			l.last = l.last[1:]
		}
	}
	l.partial = l.partial[:0]
}

// tail returns the last lines, oldest first.
func (l *childLog) tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep()
	lines := make([]string, 0, len(l.last))
	for _, line := range l.last {
		lines = append(lines, strings.TrimRight(string(line), "\r "))
	}
	return lines
}

// hint says where to read more, followed by the last lines.
func (l *childLog) hint() string {
	lines := l.tail()
	if len(lines) == 0 {
		return ""
	}
	hint := "; the last lines of its log"
	if l.path != "" {
		hint += " " + l.path
	}
	return hint + ":\n\t" + strings.Join(lines, "\n\t")
}

func (l *childLog) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
