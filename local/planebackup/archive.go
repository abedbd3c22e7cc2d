package planebackup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/failpoint"
	"github.com/capstan-dev/capstan/internal/hint"
)

// measure fills in the size and digest of a file.
func (f *File) measure() error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	if f.Size, err = io.Copy(sum, file); err != nil {
		return err
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// write writes a backup to path, which must not exist, and lets only the owner read it. It writes the file completely
// or not at all.
func write(path string, m Manifest) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return hint.Errorf("specify another file", "%s already exists", path)
	}
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // CreateTemp sets mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	defer part.Close()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	out := tar.NewWriter(part)
	head := &tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(text)), ModTime: m.Time}
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := add(out, f, m); err != nil {
			return fmt.Errorf("adding %s: %w", f.Name, err)
		}
	}
	failpoint.Hit("plane backup written")
	if err := errors.Join(out.Close(), part.Sync(), part.Close()); err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, part.Name(), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("renaming the finished backup to %s: %w", path, err)
	}
	return nil
}

func add(out *tar.Writer, f File, m Manifest) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := out.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o600, Size: f.Size, ModTime: m.Time}); err != nil {
		return err
	}
	_, err = io.Copy(out, file)
	return err
}

// Read returns the manifest of the backup at path.
func Read(path string) (Manifest, error) {
	file, err := os.Open(path)
	if err != nil {
		return Manifest{}, hint.Errorf("specify a file that \"capstan backup plane create\" wrote", "%w", err)
	}
	defer file.Close()
	m, err := readManifest(tar.NewReader(file))
	if err != nil {
		return m, damaged(path, "%v", err)
	}
	return m, nil
}

func readManifest(in *tar.Reader) (m Manifest, err error) {
	head, err := in.Next()
	if err != nil {
		return m, err
	}
	if head.Name != manifestName || head.Size > 1<<20 {
		return m, fmt.Errorf("it does not begin with a valid manifest, but with %.60q", head.Name)
	}
	if err := json.NewDecoder(in).Decode(&m); err != nil {
		return m, err
	}
	if m.Format != format {
		return m, fmt.Errorf("its format is %d, but this version of Capstan reads %d", m.Format, format)
	}
	return m, m.check()
}

// check returns an error if the names or sizes of the files are invalid.
func (m Manifest) check() error {
	if len(m.Files) > mostFiles {
		return fmt.Errorf("it has %d files, which are too many", len(m.Files))
	}
	seen, total := map[string]bool{}, int64(0)
	for _, f := range m.Files {
		rest, isKey := strings.CutPrefix(f.Name, pkiPrefix)
		known := f.Name == snapshotName || f.Name == keysName || f.Name == choicesName ||
			isKey && (filepath.Ext(rest) == ".crt" || filepath.Ext(rest) == ".key") && filepath.Base(rest) == rest
		if total += f.Size; !known || seen[f.Name] || f.Size < 0 || total > mostBytes {
			return fmt.Errorf("file %.60q (%d bytes) has an unexpected or repeated name or an invalid size",
				f.Name, f.Size)
		}
		seen[f.Name] = true
	}
	for _, name := range []string{snapshotName, keysName, pkiPrefix + "ca.key", pkiPrefix + "service-accounts.key"} {
		if !seen[name] {
			return fmt.Errorf("it has no %s", name)
		}
	}
	return nil
}

// extract extracts the backup at path into a directory and verifies every file against the manifest.
func extract(path, into string) (m Manifest, err error) {
	file, err := os.Open(path)
	if err != nil {
		return m, hint.Errorf("specify a file that \"capstan backup plane create\" wrote", "%w", err)
	}
	defer file.Close()
	in := tar.NewReader(file)
	if m, err = readManifest(in); err != nil {
		return m, damaged(path, "%v", err)
	}
	for i := range m.Files {
		f := &m.Files[i]
		head, err := in.Next()
		if err != nil {
			return m, damaged(path, "after %d of %d files: %v", i, len(m.Files), err)
		}
		if head.Name != f.Name || head.Size != f.Size || head.Typeflag != tar.TypeReg {
			return m, damaged(path, "it contains %.60q instead of %s", head.Name, f.Name)
		}
		f.path = filepath.Join(into, f.Name)
		sum := sha256.New()
		switch err := save(in, f.path, sum); {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return m, damaged(path, "it is truncated within %s", f.Name)
		case err != nil:
			return m, fmt.Errorf("reading %s of the backup: %w", f.Name, err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
			return m, damaged(path, "%s was changed", f.Name)
		}
	}
	return m, nil
}

// save writes a file, readable only by its owner, and syncs it to disk.
func save(from io.Reader, path string, sum hash.Hash) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(io.MultiWriter(file, sum), from); err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// names returns the names of the files in a directory.
func names(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() {
			found = append(found, e.Name())
		}
	}
	slices.Sort(found)
	return found, err
}
