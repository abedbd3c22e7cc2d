package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Disk stores backups in a directory as NAMESPACE/CLUSTER/NAME/, with directories of mode 0700 and files of mode 0600.
type Disk struct {
	// Directory holds all backups. It is created if missing.
	Directory string
}

// newPrefix is the prefix of directories that are not backups yet.
const newPrefix = ".new-"

var _ Store = Disk{}

// Add implements Store.
func (d Disk) Add(ctx context.Context, m Manifest, file string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping backup %s in %s: %w", m.Name, d.Directory, err)
		}
	}()
	if err := checkName(m.Namespace, m.Cluster, m.Name); err != nil {
		return err
	}
	parent := filepath.Join(d.Directory, m.Namespace, m.Cluster)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	// List skips names that begin with a dot, so what a crash leaves behind does not count as a backup.
	fresh, err := os.MkdirTemp(parent, newPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if _, err := copyFile(ctx, file, filepath.Join(fresh, snapshotFile)); err != nil {
		return err
	}
	if _, err := writeNew(ctx, filepath.Join(fresh, manifestFile), bytes.NewReader(append(data, '\n'))); err != nil {
		return err
	}
	if err := os.Rename(fresh, d.path(m)); err != nil {
		return err
	}
	return syncDirectory(parent)
}

// syncDirectory flushes the entries of a directory to disk.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

// List implements Store.
func (d Disk) List(_ context.Context, namespace, cluster string) ([]Manifest, error) {
	most := maxBackups
	if namespace == "" && cluster == "" {
		namespace, cluster, most = "*", "*", maxList
	} else if err := checkName(namespace, cluster); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(d.Directory, namespace, cluster, "[^.]*", manifestFile))
	if err != nil {
		return nil, fmt.Errorf("listing backups in %s: %w", d.Directory, err)
	}
	var all []Manifest
	var damaged []error
	for _, file := range files[max(0, len(files)-most):] { // sorted by name, so those of one cluster are sorted by time
		m, err := readManifest(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed in the meantime
		}
		if err == nil && d.path(m) != filepath.Dir(file) {
			err = fmt.Errorf("%w: %s is the manifest of another backup: somebody has copied it", ErrDamaged, file)
		}
		if errors.Is(err, ErrDamaged) {
			damaged = append(damaged, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing backups in %s: %w", d.Directory, err)
		}
		all = append(all, m)
	}
	sortByTime(all)
	return all, errors.Join(damaged...)
}

// Tidy implements Store.
func (d Disk) Tidy(_ context.Context, namespace, cluster string, now time.Time) error {
	if err := checkName(namespace, cluster); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(d.Directory, namespace, cluster, newPrefix+"*"))
	if err != nil {
		return fmt.Errorf("tidying backups in %s: %w", d.Directory, err)
	}
	for _, path := range left {
		info, err := os.Lstat(path)
		if err == nil && now.Sub(info.ModTime()) < leftFor {
			continue
		}
		if err == nil {
			err = os.RemoveAll(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("tidying backups in %s: %w", d.Directory, err)
		}
	}
	return nil
}

// Fetch implements Store.
func (d Disk) Fetch(ctx context.Context, m Manifest, file string) error {
	if err := checkName(m.Namespace, m.Cluster, m.Name); err != nil {
		return err
	}
	sum, err := copyFile(ctx, filepath.Join(d.path(m), snapshotFile), file)
	if err != nil {
		return fmt.Errorf("reading backup %s from %s: %w", m.Name, d.Directory, err)
	}
	return checkSum(m, sum)
}

// Remove implements Store.
func (d Disk) Remove(_ context.Context, m Manifest) error {
	if err := checkName(m.Namespace, m.Cluster, m.Name); err != nil {
		return err
	}
	// Rename the directory before removing its files, so that it no longer counts as a backup. Tidy finds what a crash
	// leaves behind.
	leaving := filepath.Join(filepath.Dir(d.path(m)), newPrefix+m.Name)
	err := os.Rename(d.path(m), leaving)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.RemoveAll(leaving)
	}
	if err != nil {
		return fmt.Errorf("removing backup %s: %w", m.Name, err)
	}
	return nil
}

func (d Disk) path(m Manifest) string {
	return filepath.Join(d.Directory, m.Namespace, m.Cluster, m.Name)
}

func readManifest(path string) (m Manifest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxManifest))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: %s (remove its directory if the backup is not needed): %w", ErrDamaged, path, err)
	}
	return m, nil
}

// copyFile copies to a new file of mode 0600, flushes it to disk and returns its SHA-256.
func copyFile(ctx context.Context, from, to string) (sum string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return writeNew(ctx, to, in)
}

func writeNew(ctx context.Context, path string, from io.Reader) (sum string, err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, digest), &endsWith{ctx, from})
	if err == nil {
		err = out.Sync()
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// endsWith reads until its context is done.
type endsWith struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (e *endsWith) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.Reader.Read(p)
}

func checkSum(m Manifest, sum string) error {
	if sum != m.SHA256 {
		return fmt.Errorf("backup %s is damaged: its SHA-256 is not the one in its manifest; use another backup",
			m.Name)
	}
	return nil
}

func sortByTime(all []Manifest) {
	slices.SortFunc(all, func(a, b Manifest) int {
		return a.Time.Compare(b.Time)
	})
}
