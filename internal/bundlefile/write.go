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
	"time"
)

// Write writes a bundle of the files in m and fills in their sizes and digests. source returns the path on disk of a
// file in the bundle. With the same Go release, the same files produce the same bytes.
func Write(to io.Writer, m *Manifest, source func(path string) string) error {
	for i := range m.Files {
		if err := measure(&m.Files[i], source(m.Files[i].Path)); err != nil {
			return err
		}
	}
	if err := m.Check(); err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// At any compression level, programs shrink by about a third. The fastest level takes a third of the default
	// level's time.
	packed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	if err := add(archive, ManifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := addFile(archive, f, source(f.Path)); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	return packed.Close()
}

// measure fills in the size and digest of a file.
func measure(f *File, path string) error {
	file, err := os.Open(path)
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

func addFile(archive *tar.Writer, f File, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return add(archive, f.Path, f.Size, file)
}

func add(archive *tar.Writer, name string, size int64, data io.Reader) error {
	h := &tar.Header{
		Name: filepath.ToSlash(name), Typeflag: tar.TypeReg, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0),
	}
	if err := archive.WriteHeader(h); err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	if _, err := io.CopyN(archive, data, size); err != nil {
		return fmt.Errorf("writing %s of the bundle: %w", name, err)
	}
	return nil
}
