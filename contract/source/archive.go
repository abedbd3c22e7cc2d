package source

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxArchive limits the unpacked size of an archive, in bytes.
const maxArchive = 256 << 20

// maxEntries limits the number of entries in an archive.
const maxEntries = 50_000

func isArchive(name string) bool {
	for _, ending := range []string{".tar", ".tar.gz", ".tgz", ".zip"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}

// openArchive unpacks the YAML files of an archive to a temporary directory, reads them and removes the directory.
func (r Reader) openArchive(name string) (releases []*Release, err error) {
	dir, err := os.MkdirTemp("", "capstan-verify-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	u := &unpacker{root: root}
	if strings.HasSuffix(name, ".zip") {
		err = u.zip(name)
	} else {
		err = u.tar(name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the archive %s: %w", name, err)
	}
	releases, err = r.openDirectory(dir, 0)
	if err != nil {
		return nil, err
	}
	if len(releases) == 0 {
		return nil, &NothingError{name}
	}
	for _, release := range releases {
		release.Path = inArchive(name, dir, release.Path)
		for _, f := range release.Files {
			f.move(func(path string) string { return inArchive(name, dir, path) })
		}
	}
	return releases, nil
}

// inArchive converts the path of an unpacked file to the name that reports use for a file in an archive.
func inArchive(archive, dir, path string) string {
	inner, err := filepath.Rel(dir, path)
	if err != nil || inner == "." {
		return archive
	}
	return archive + "!/" + filepath.ToSlash(inner)
}

// move changes all paths of a file.
func (f *File) move(to func(string) string) {
	f.Path = to(f.Path)
	for i := range f.Variables {
		f.Variables[i].At.File = to(f.Variables[i].At.File)
	}
	if f.Problem != nil {
		f.Problem.At.File = to(f.Problem.At.File)
	}
	for _, o := range f.Objects {
		if o.origin != nil {
			o.origin.File = to(o.origin.File)
		}
	}
}

// unpacker writes the entries of an archive below a root. No entry can escape the root.
type unpacker struct {
	root    *os.Root
	entries int
	bytes   int64
}

func (u *unpacker) tar(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	var in io.Reader = file
	if !strings.HasSuffix(name, ".tar") {
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			return err
		}
		defer unzipped.Close()
		// The limit covers skipped entries, too.
		in = io.LimitReader(unzipped, 4*maxArchive)
	}
	for reader := tar.NewReader(in); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := u.write(header.Name, reader); err != nil {
			return err
		}
	}
}

func (u *unpacker) zip(name string) error {
	archive, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer archive.Close()
	for _, entry := range archive.File {
		if !entry.Mode().IsRegular() {
			continue
		}
		if err := u.zipEntry(entry); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) zipEntry(entry *zip.File) error {
	in, err := entry.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	return u.write(entry.Name, in)
}

// write writes an entry if a release may contain such a file.
func (u *unpacker) write(name string, in io.Reader) error {
	if u.entries++; u.entries > maxEntries {
		return fmt.Errorf("it has more than %d entries", maxEntries)
	}
	base := filepath.Base(filepath.FromSlash(name))
	if !isYAML(base) && base != "go.mod" && base != "Kustomization" {
		return nil
	}
	local, err := filepath.Localize(strings.TrimPrefix(name, "./"))
	if err != nil {
		return fmt.Errorf("the entry %q leads out of it", name)
	}
	if err := u.root.MkdirAll(filepath.Dir(local), 0o700); err != nil {
		return err
	}
	file, err := u.root.OpenFile(local, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, io.LimitReader(in, maxArchive-u.bytes+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if u.bytes += n; u.bytes > maxArchive {
		return fmt.Errorf("its files have more than %d MiB", maxArchive>>20)
	}
	return nil
}
