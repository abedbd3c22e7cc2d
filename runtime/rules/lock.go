package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/capstan-dev/capstan/runtime/schema"
)

// Lock is a description of hooks that is kept in git. It records what was promised, for comparison with later states.
type Lock struct {
	// Package that declares the hooks, or another name for their origin.
	Package string `json:"package"`
	// Release that was described, for example "v1.14"; empty for an unreleased state.
	Release string `json:"release,omitempty"`
	// Document is the description without texts.
	*schema.Document
}

// ReadLock reads a lock file. If there is none, the error matches fs.ErrNotExist.
func ReadLock(path string) (*Lock, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the lock file: %w", err)
	}
	lock := &Lock{}
	if err := json.Unmarshal(data, lock); err != nil {
		return nil, fmt.Errorf("reading the lock file %s: %w", path, err)
	}
	if lock.Document == nil || len(lock.Hooks) == 0 {
		return nil, fmt.Errorf("reading the lock file %s: it describes no hooks: write it again with --update", path)
	}
	if err := lock.Check(); err != nil {
		return nil, fmt.Errorf("reading the lock file %s: %w", path, err)
	}
	return lock, nil
}

// Encode returns the content of a lock file; the same hooks produce the same bytes.
func (l *Lock) Encode() ([]byte, error) {
	bare := *l
	bare.Document = l.WithoutDescriptions()
	data, err := json.MarshalIndent(bare, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding a lock file: %w", err)
	}
	return append(data, '\n'), nil
}

// Write writes a lock file atomically: a crash leaves the old one.
func (l *Lock) Write(path string) error {
	data, err := l.Encode()
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return fmt.Errorf("writing the lock file: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing the lock file: %w", errors.Join(err, os.Remove(next)))
	}
	return nil
}

// IsMissing reports whether an error of [ReadLock] means that there is no lock file yet.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
