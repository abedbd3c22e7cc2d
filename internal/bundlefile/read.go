package bundlefile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/internal/regular"
)

// Verify reads a complete bundle and returns its manifest. It fails with [ErrDamaged] if anything differs from the
// manifest.
func Verify(from io.Reader) (*Manifest, error) {
	return read(from, func(File, io.Reader) error { return nil })
}

// Unpack unpacks a bundle into a directory that does not exist yet. On an error it leaves nothing behind.
func Unpack(from io.Reader, dir string) (m *Manifest, err error) {
	next := dir + ".next"
	if err := os.RemoveAll(next); err != nil {
		return nil, err
	}
	defer os.RemoveAll(next)
	m, err = read(from, func(f File, data io.Reader) error { return place(filepath.Join(next, f.Path), data) })
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if err := place(filepath.Join(next, ManifestName), bytes.NewReader(text)); err != nil {
		return nil, err
	}
	if err := os.Rename(next, dir); err != nil {
		return nil, fmt.Errorf("unpacking a bundle: %w", err)
	}
	return m, nil
}

// place writes a file and flushes it to disk. Programs are executable by everybody.
func place(path string, data io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("unpacking a bundle: %w", err)
	}
	mode := os.FileMode(0o644)
	if parent := filepath.Base(filepath.Dir(path)); parent == "bin" || parent == "cni" {
		mode = 0o755
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("unpacking a bundle: %w", err)
	}
	defer f.Close()
	if _, err := io.Copy(f, data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil { // independent of the umask
		return fmt.Errorf("unpacking a bundle: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("unpacking a bundle: %w", err)
	}
	return f.Close()
}

// read reads a bundle and passes the content of each file to the function use, which may leave part of the content
// unread.
func read(from io.Reader, use func(File, io.Reader) error) (*Manifest, error) {
	unpacked, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not compressed with gzip: %w", ErrDamaged, err)
	}
	archive := tar.NewReader(unpacked)
	m, err := first(archive)
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := one(archive, f, use); err != nil {
			return nil, err
		}
	}
	if h, err := archive.Next(); err == nil {
		return nil, fmt.Errorf("%w: it has a file %q that is not in its manifest", ErrDamaged, h.Name)
	} else if err != io.EOF {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	// Read to the end of the compressed data, where gzip verifies its checksum.
	if n, err := io.Copy(io.Discard, io.LimitReader(unpacked, manifestLimit)); err != nil || n == manifestLimit {
		return nil, fmt.Errorf("%w: its end is damaged, or it has more data after its last file", ErrDamaged)
	}
	return m, nil
}

// first reads the manifest.
func first(archive *tar.Reader) (*Manifest, error) {
	h, err := archive.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: it is not an archive: %w", ErrDamaged, err)
	}
	if h.Name != ManifestName || h.Typeflag != tar.TypeReg || h.Size > manifestLimit {
		return nil, fmt.Errorf("%w: its first file is not a manifest", ErrDamaged)
	}
	data, err := io.ReadAll(archive)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return parse(data)
}

func parse(data []byte) (*Manifest, error) {
	m := &Manifest{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: its manifest can't be read: %w", ErrDamaged, err)
	}
	return m, m.Check()
}

// one reads one file completely.
func one(archive *tar.Reader, want File, use func(File, io.Reader) error) error {
	h, err := archive.Next()
	if err != nil {
		return fmt.Errorf("%w: %s is missing: %w", ErrDamaged, want.Path, err)
	}
	if h.Name != want.Path || h.Typeflag != tar.TypeReg || h.Size != want.Size {
		return fmt.Errorf("%w: where %s should be, there is %q with %d bytes", ErrDamaged, want.Path, h.Name, h.Size)
	}
	sum := sha256.New()
	data := io.TeeReader(archive, sum)
	if err := use(want, data); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, data); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, want.Path, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%w: the digest of %s is not the one in the manifest", ErrDamaged, want.Path)
	}
	return nil
}

// ReadManifest returns the manifest in the directory of an unpacked bundle. It fails with fs.ErrNotExist if there is
// none.
func ReadManifest(dir string) (*Manifest, error) {
	data, err := regular.Read(filepath.Join(dir, ManifestName), manifestLimit)
	if err != nil {
		return nil, err
	}
	return parse(data)
}

// CheckDirectory reads all files of an unpacked bundle and fails with [ErrDamaged] if one does not match the manifest.
// This detects disk failures and mistakes, not attacks: whoever could change a file could also change the manifest.
func CheckDirectory(dir string) (*Manifest, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if err := checkFile(dir, f); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func checkFile(dir string, want File) error {
	f, err := regular.Open(filepath.Join(dir, want.Path), os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, want.Size+1)); err != nil {
		return fmt.Errorf("reading the bundle: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
		return fmt.Errorf("%w: %s differs from what the manifest says", ErrDamaged, filepath.Join(dir, want.Path))
	}
	return nil
}
