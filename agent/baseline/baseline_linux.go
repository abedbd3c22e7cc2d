// Package baseline records the state of a host before a claim, and lists what differs afterwards.
//
// A baseline is one compressed file. Its first line is the state of the running system: processes, sockets, mounts,
// network and packet filter. The other lines are the files of the system, in the order of a walk, so that two walks
// can be compared line by line without holding either in memory.
//
// A comparison does not cover the contents of files outside [digestTrees], ordinary files in [volatileTrees], firmware,
// or anything that the kernel conceals because a program that ran as root has changed the kernel. Outside digestTrees,
// the owner, mode, size and times of a file are compared. One of these times is the inode's change time, which nobody
// can set.
package baseline

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// timeLimit bounds the time to take a baseline, and the time to compare a host with its baseline.
const timeLimit = 2 * time.Minute

// longestLine bounds a line of the file, in bytes. A path can be slightly longer than longestPath, and each of its
// bytes may take up four bytes.
const longestLine = 1 << 20

// mostFound bounds how many differences a comparison collects. A report lists fewer.
const mostFound = 1000

// Host is the host to examine.
type Host struct {
	// Root is the root directory; "/" except in tests.
	Root string
	// Own are the agent's own directories, which are skipped.
	Own []string
	// Known reports whether a file equals the kept copy of its original; only the times may differ. May be nil.
	Known func(path string) bool
	// Shared says that read-only mounts belong to the machine around a local host: they change independently of the host,
	// which can't change them.
	Shared bool
	// Packages accepts changed files that match the host's package database, if the database has changed since the
	// baseline was taken.
	Packages bool
}

// Take writes the baseline of the host to path, unless that file already exists, and returns the baseline's digest.
func (h Host) Take(ctx context.Context, path string) (digest string, err error) {
	if digest, err := Digest(path); !errors.Is(err, fs.ErrNotExist) {
		return digest, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("taking the baseline of the host: %w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	part, err := os.CreateTemp(filepath.Dir(path), ".baseline-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(part.Name())
	defer part.Close()
	if err := h.write(ctx, part); err != nil {
		return "", err
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return "", err
	}
	return Digest(path)
}

// Digest returns the digest of a baseline: SHA-256, in URL-safe base64.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)), nil
}

func (h Host) write(ctx context.Context, to io.Writer) error {
	packed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(packed, 1<<16)
	now, err := h.look()
	if err != nil {
		return err
	}
	line, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return err
	}
	if err := h.walk(ctx, func(e entry) error {
		_, err := out.Write(e.appendTo(out.AvailableBuffer()))
		return err
	}); err != nil {
		return err
	}
	return errors.Join(out.Flush(), packed.Close())
}

// Compare lists how the host differs from the baseline at path: what was added, removed or changed. The most dangerous
// differences come first. An empty result means that Compare found none.
func (h Host) Compare(ctx context.Context, path string) (found []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		found, err = h.compare(ctx, f)
	}
	if err != nil {
		return nil, fmt.Errorf("comparing the host with its baseline: %w", err)
	}
	return found, nil
}

func (h Host) compare(ctx context.Context, f io.Reader) ([]string, error) {
	lines, before, err := open(f)
	if err != nil {
		return nil, err
	}
	now, err := h.look()
	if err != nil {
		return nil, err
	}
	files, err := h.compareFiles(ctx, lines)
	if err != nil {
		return nil, err
	}
	if h.Packages && before.Packages != now.Packages {
		if files, err = h.withoutPackages(ctx, files); err != nil {
			return nil, err
		}
	}
	files = withoutEmpty(files)
	return append(now.since(before), describe(files)...), nil
}

// open reads the state of the running system from a baseline, and returns the remaining lines.
func open(f io.Reader) (lines *bufio.Scanner, before state, err error) {
	packed, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, before, err
	}
	lines = bufio.NewScanner(packed)
	lines.Buffer(make([]byte, 0, 1<<16), longestLine*16)
	if !lines.Scan() {
		return nil, before, cmp.Or(lines.Err(), io.ErrUnexpectedEOF)
	}
	return lines, before, json.Unmarshal(lines.Bytes(), &before)
}
