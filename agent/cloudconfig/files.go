package cloudconfig

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (r *reader) file(n *yaml.Node) File {
	f := File{Mode: 0o644}
	content, encoding := "", ""
	r.fields(n, "an entry of write_files", map[string]func(*yaml.Node){
		"path":        func(n *yaml.Node) { f.Path = r.text(n, "path") },
		"content":     func(n *yaml.Node) { content = r.text(n, "content") },
		"encoding":    func(n *yaml.Node) { encoding = r.text(n, "encoding") },
		"permissions": func(n *yaml.Node) { f.Mode = r.mode(n) },
		"append":      func(n *yaml.Node) { f.Append = r.flag(n, "append") },
		"defer":       func(n *yaml.Node) { f.Defer = r.flag(n, "defer") },
		"owner": func(n *yaml.Node) {
			f.Owner, f.Group, _ = strings.Cut(strings.TrimSpace(r.text(n, "owner")), ":")
		},
	})
	if !filepath.IsAbs(f.Path) || strings.ContainsRune(f.Path, 0) {
		r.fail(n, "an entry of write_files needs an absolute path")
	}
	f.Path = filepath.Clean(f.Path)
	var err error
	if f.Content, f.Packed, err = decode(content, encoding); err == nil && f.Packed {
		var size int64
		size, err = unpackedSize(f.Content, unpackedLimit-r.unpacked)
		r.unpacked += size
	}
	if err != nil {
		r.fail(n, "an entry of write_files: %v", err)
		return File{}
	}
	return f
}

// mode parses permissions: octal digits, quoted or not.
func (r *reader) mode(n *yaml.Node) fs.FileMode {
	digits := strings.TrimPrefix(r.text(n, "permissions"), "0o")
	bits, err := strconv.ParseUint(digits, 8, 16)
	if err != nil || bits > 0o7777 {
		r.fail(n, "permissions must be up to four octal digits")
		return 0
	}
	mode := fs.FileMode(bits & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if bits&bit != 0 {
			mode |= flag
		}
	}
	return mode
}

// decode returns a file's content, still compressed if packed is true. Its errors don't quote the content.
func decode(content, encoding string) (data []byte, packed bool, err error) {
	coded := false
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "text/plain":
	case "b64", "base64":
		coded = true
	case "gz", "gzip":
		packed = true
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		packed, coded = true, true
	default:
		return nil, false, errors.New("the encoding is unknown: it can be base64, gzip or gzip+base64")
	}
	if !coded {
		return []byte(content), packed, nil
	}
	compact := strings.NewReplacer("\n", "", "\r", "", " ", "", "\t", "").Replace(content)
	if data, err = base64.StdEncoding.DecodeString(compact); err != nil {
		return nil, false, errors.New("the content is not valid base64")
	}
	return data, packed, nil
}

var errNoGzip = errors.New("the content is not valid gzip")

// unpackedSize returns the uncompressed size of compressed content without keeping it. It returns an error if the size
// exceeds limit.
func unpackedSize(data []byte, limit int64) (int64, error) {
	unpacked, err := unpack(data)
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(io.Discard, io.LimitReader(unpacked, limit+1))
	if err != nil {
		return 0, errNoGzip
	}
	if size > limit {
		return limit, errors.New("the content of all files is larger than 64 MiB when unpacked")
	}
	return size, nil
}

func unpack(data []byte) (io.Reader, error) {
	// YAML may leave a line break after the stream, which must not be read as a second stream. Trimming it is safe: the
	// last byte of a stream is the highest byte of its uncompressed size, so a stream that ends with a line break (10
	// or 13) would have at least 160 MiB.
	z, err := gzip.NewReader(bytes.NewReader(bytes.TrimRight(data, "\r\n")))
	if err != nil {
		return nil, errNoGzip
	}
	return z, nil
}

// Open returns a reader that uncompresses the content as it is read: a file may be large, and the agent has little
// memory.
func (f File) Open() (io.Reader, error) {
	if f.Packed {
		return unpack(f.Content)
	}
	return bytes.NewReader(f.Content), nil
}
