// Package build creates an image from a static program or from a directory, without a container engine. The same input
// produces the same digest on every machine: all files belong to root, have mode 0755 or 0644, and have the time that
// Options.Epoch says.
package build

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/image"
)

// DefaultUser is the user that a program runs as by default.
const DefaultUser = "65532:65532"

// Options say what an image consists of and what it runs.
type Options struct {
	// Name is the image's name. Required.
	Name string
	// Path is a static program, or a directory that becomes the image's root. Required.
	Path string
	// Entrypoint is what containers run; default: the program. A directory has none by default.
	Entrypoint []string
	// Command holds the arguments that a container can replace.
	Command []string
	// User is NAME, UID or UID:GID; default [DefaultUser] for a program, root for a directory.
	User string
	// Env holds NAME=VALUE pairs, in addition to PATH.
	Env []string
	// Dir is the working directory; default /.
	Dir string
	// Architecture is the architecture of a directory's programs, in Go's terms; default: the architecture of this
	// machine. For a static program, Build reads it from the file.
	Architecture string
	// Epoch is the time of all files in the image; default 1970.
	Epoch time.Time
}

// maxFiles bounds the files in a directory.
const maxFiles = 200_000

// Build writes the image as an OCI archive.
func Build(o Options, to io.Writer) error {
	name, err := image.Canonical(o.Name)
	if err != nil {
		return err
	}
	if strings.Contains(name, "@") {
		return image.Errorf(image.CodeInvalid, "give it a tag: NAME:TAG",
			"%q names a digest, but the digest of a new image is not known yet", o.Name)
	}
	info, err := os.Stat(o.Path)
	if err != nil {
		return err
	}
	spool, err := os.CreateTemp("", "capstan-image-")
	if err != nil {
		return err
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	sum := sha256.New()
	l := &layer{tar: tar.NewWriter(io.MultiWriter(spool, sum)), epoch: o.Epoch.UTC()}
	if o.Epoch.IsZero() {
		l.epoch = time.Unix(0, 0).UTC()
	}
	arch := cmp.Or(o.Architecture, runtime.GOARCH)
	if info.IsDir() {
		err = l.directory(o.Path)
	} else {
		if len(o.Entrypoint) == 0 {
			o.Entrypoint = []string{"/" + filepath.Base(o.Path)}
		}
		if o.User == "" {
			o.User = DefaultUser
		}
		arch, err = l.program(o.Path)
	}
	if err == nil {
		err = l.tar.Close()
	}
	if err != nil {
		return err
	}
	return write(to, name, o, arch, l.epoch, spool, "sha256:"+hex.EncodeToString(sum.Sum(nil)))
}

// layer is the image's only layer.
type layer struct {
	tar   *tar.Writer
	epoch time.Time
	files int
}

func (l *layer) header(name string, kind byte, mode fs.FileMode, size int64, link string) error {
	if l.files++; l.files > maxFiles {
		return image.Errorf(image.CodeInvalid, "leave out what the image does not need",
			"the directory has more than %d files", maxFiles)
	}
	return l.tar.WriteHeader(&tar.Header{
		Name: name, Typeflag: kind, Mode: int64(mode), Size: size, Linkname: link, ModTime: l.epoch, Format: tar.FormatPAX,
	})
}

func (l *layer) text(name, data string) error {
	if err := l.header(name, tar.TypeReg, 0o644, int64(len(data)), ""); err != nil {
		return err
	}
	_, err := io.WriteString(l.tar, data)
	return err
}

// program writes a static program, its user database and a directory for temporary files.
func (l *layer) program(file string) (arch string, err error) {
	if arch, err = static(file); err != nil {
		return "", err
	}
	for _, step := range []func() error{
		func() error { return l.header("etc/", tar.TypeDir, 0o755, 0, "") },
		func() error {
			return l.text("etc/passwd",
				"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")
		},
		func() error { return l.text("etc/group", "root:x:0:\nnonroot:x:65532:\n") },
		func() error { return l.header("tmp/", tar.TypeDir, 0o1777, 0, "") },
		func() error { return l.file(file, filepath.Base(file), 0o755) },
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return arch, nil
}

// static returns the architecture of a static Linux program.
func static(file string) (string, error) {
	f, err := elf.Open(file)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "", image.Errorf(image.CodeInvalid, "give a static program or a directory",
			"%s is not a program for Linux: %v", file, err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", image.Errorf(image.CodeInvalid,
				"build it with CGO_ENABLED=0 go build, or link it with -static; or give a directory with its libraries",
				"%s is not a static program: the image would lack its libraries", file)
		}
	}
	arch, known := map[elf.Machine]string{
		elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_RISCV: "riscv64", elf.EM_S390: "s390x",
		elf.EM_PPC64: "ppc64le",
	}[f.Machine]
	if !known {
		return "", image.Errorf(image.CodeInvalid, "", "%s is for the unknown architecture %s", file, f.Machine)
	}
	return arch, nil
}

func (l *layer) file(from, name string, mode fs.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := l.header(name, tar.TypeReg, mode, info.Size(), ""); err != nil {
		return err
	}
	if _, err := io.CopyN(l.tar, f, info.Size()); err != nil {
		return fmt.Errorf("reading %s: %w", from, err)
	}
	return nil
}

// directory writes all files of a directory, sorted by name.
func (l *layer) directory(root string) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return l.header(name+"/", tar.TypeDir, dirMode(info.Mode()), 0, "")
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(file)
			if err != nil {
				return err
			}
			return l.header(name, tar.TypeSymlink, 0o777, 0, link)
		case !info.Mode().IsRegular():
			return image.Errorf(image.CodeInvalid, "remove it from the directory",
				"%s is not a file, directory or link", file)
		case info.Mode()&0o111 != 0:
			return l.file(file, name, 0o755)
		}
		return l.file(file, name, 0o644)
	})
}

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Media types that Build writes.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// write writes the archive around the layer. The layer is not compressed: compressed bytes differ between Go releases,
// and so would the digest.
func write(to io.Writer, name string, o Options, arch string, epoch time.Time, spool *os.File, diffID string) error {
	size, err := spool.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	config, err := json.Marshal(configOf(o, arch, epoch, diffID))
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": describe(configType, config),
		"layers": []descriptor{{MediaType: layerType, Digest: diffID, Size: size}},
	})
	if err != nil {
		return err
	}
	top := describe(manifestType, manifest)
	top.Annotations = map[string]string{
		"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name,
	}
	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{top},
	})
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	for _, f := range []struct {
		name string
		from io.Reader
		size int64
	}{
		{"oci-layout", strings.NewReader(layoutVersion), int64(len(layoutVersion))},
		{"index.json", bytes.NewReader(index), int64(len(index))},
		{blobName(top.Digest), bytes.NewReader(manifest), int64(len(manifest))},
		{blobName(describe("", config).Digest), bytes.NewReader(config), int64(len(config))},
		{blobName(diffID), spool, size},
	} {
		h := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: 0o644, Size: f.size, ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.CopyN(w, f.from, f.size); err != nil {
			return err
		}
	}
	return w.Close()
}

const layoutVersion = `{"imageLayoutVersion":"1.0.0"}`

func describe(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(data))}
}

func blobName(digest string) string { return path.Join("blobs", strings.Replace(digest, ":", "/", 1)) }

// configOf returns the image's configuration.
func configOf(o Options, arch string, epoch time.Time, diffID string) map[string]any {
	env := slices.Clone(o.Env)
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
	}
	dir := o.Dir
	if dir == "" {
		dir = "/"
	}
	run := map[string]any{"Env": env, "WorkingDir": dir}
	if len(o.Entrypoint) > 0 {
		run["Entrypoint"] = o.Entrypoint
	}
	if len(o.Command) > 0 {
		run["Cmd"] = o.Command
	}
	if o.User != "" {
		run["User"] = o.User
	}
	return map[string]any{
		"architecture": arch, "os": "linux", "created": epoch.Format(time.RFC3339), "config": run,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{diffID}},
		"history": []map[string]any{{"created": epoch.Format(time.RFC3339), "created_by": "capstan image build"}},
	}
}

// dirMode returns 1777 for a sticky, world-writable directory such as /tmp, and 0755 for all others.
func dirMode(m fs.FileMode) fs.FileMode {
	if m&fs.ModeSticky != 0 && m.Perm()&0o002 != 0 {
		return 0o1777
	}
	return 0o755
}
