package command

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/internal/logfile"
)

// Log is a file of bounded size that only root can read. Writing never fails, because a full disk must not stop the
// command that writes.
type Log struct {
	*logfile.File
	path string
}

// OpenLog opens a log for appending. The file and its full predecessor have at most limit bytes each.
func OpenLog(path string, limit int64) (*Log, error) {
	// Users other than root may list this directory, unlike those that logfile creates.
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	file, err := logfile.Open(path, limit)
	if err != nil {
		return nil, err
	}
	return &Log{File: file, path: path}, nil
}

// Printf appends a line from the agent itself.
func (l *Log) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(l, "capstan: "+format+"\n", args...)
}

// Path returns the path of the log.
func (l *Log) Path() string { return l.path }
