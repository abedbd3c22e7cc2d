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

// unpackedLimit bounds the content of one compressed file, in bytes.
const unpackedLimit = 64 << 20

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
	if f.Content, err = decode(content, encoding); err != nil {
		r.fail(n, "an entry of write_files: %v", err)
	}
	return f
}

// mode reads permissions, octal digits whether they are quoted or not.
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

// decode returns a file's content. Its errors don't quote the content.
func decode(content, encoding string) ([]byte, error) {
	zipped, coded := false, false
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "text/plain":
	case "b64", "base64":
		coded = true
	case "gz", "gzip":
		zipped = true
	case "gz+b64", "gz+base64", "gzip+b64", "gzip+base64":
		zipped, coded = true, true
	default:
		return nil, errors.New("the encoding is unknown: it can be base64, gzip or gzip+base64")
	}
	data := []byte(content)
	if coded {
		compact := strings.NewReplacer("\n", "", "\r", "", " ", "", "\t", "").Replace(content)
		decoded, err := base64.StdEncoding.DecodeString(compact)
		if err != nil {
			return nil, errors.New("the content is not valid base64")
		}
		data = decoded
	}
	if zipped {
		return unzip(data)
	}
	return data, nil
}

func unzip(data []byte) ([]byte, error) {
	invalid := errors.New("the content is not valid gzip")
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, invalid
	}
	z.Multistream(false) // the line break that YAML leaves at the end is not a second stream
	unpacked, err := io.ReadAll(io.LimitReader(z, unpackedLimit+1))
	if err != nil {
		return nil, invalid
	}
	if len(unpacked) > unpackedLimit {
		return nil, errors.New("the content is larger than 64 MiB when unpacked")
	}
	return unpacked, nil
}
