//go:build linux

package client

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/image"
)

// Open opens an archive, or a directory with an OCI layout, which it reads as an archive.
func Open(path string) (io.ReadCloser, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.Open(path)
	}
	if _, err := os.Stat(filepath.Join(path, "oci-layout")); err != nil {
		return nil, image.Errorf(image.CodeInvalid, "to make an image of a directory: capstan image build NAME:TAG "+path,
			"%s is not an OCI image layout: it has no file oci-layout", path)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(path, w)) }()
	return r, nil
}

// pack writes the files of a layout as an archive.
func pack(root string, to io.Writer) error {
	archive := tar.NewWriter(to)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(file) // tools create links to files that layouts share
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: info.Size(), ModTime: time.Unix(0, 0)}
		if err := archive.WriteHeader(h); err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.CopyN(archive, f, info.Size()); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return archive.Close()
}
