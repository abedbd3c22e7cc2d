// Package layer unpacks one layer of an image into a directory in the form that overlayfs needs.
//
// A removed file is a character device 0:0, and a directory that hides the layers below has the attribute
// user.overlay.opaque. Both work for ordinary users and in every user namespace (mount option userxattr).
//
// A layer's content is untrusted. No name leads out of the directory, links are resolved within the image only, and
// everything that can grow has a bound.
package layer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Opaque is the attribute of a directory that hides its content in lower layers. Its value is "y".
const Opaque = "user.overlay.opaque"

// MaxID is the largest user or group id that a layer may use; files of larger ids belong to [Nobody].
const MaxID = 65535

// Nobody is the user and group of files whose owner's id exceeds [MaxID].
const Nobody = 65534

// Defaults of [Limits].
const (
	DefaultBytes   = 32 << 30
	DefaultEntries = 500_000
	DefaultRatio   = 200
	// FreeRatio is the number of bytes that a layer may always unpack to, however small its packed size.
	FreeRatio = 64 << 20
)

// Limits bound one layer. A field that is 0 has its default.
type Limits struct {
	Bytes   int64 // total size of all files
	Entries int   // files, directories and links
	Ratio   int64 // unpacked bytes for each packed byte, beyond FreeRatio; checked by whoever unpacks the stream
}

// Default returns the limits with their defaults filled in. Pure.
func (l Limits) Default() Limits {
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	if l.Entries == 0 {
		l.Entries = DefaultEntries
	}
	if l.Ratio == 0 {
		l.Ratio = DefaultRatio
	}
	return l
}

// Options control how a layer is unpacked.
type Options struct {
	// Parents are the directories of the layers below, lowest first.
	Parents []string
	// AllIDs reports that any user up to MaxID can own files. Otherwise all files belong to the caller, and
	// [Result.Owners] records their owners.
	AllIDs bool
	Limits Limits
	// Room is called from time to time to check that the disk has room for more. It may be nil.
	Room func() error
}

// Result describes an unpacked layer.
type Result struct {
	Bytes   int64 // total size of the files
	Entries int
	// Depends reports that the directory is correct only on top of its parents: the layer has files in directories that it
	// does not describe itself.
	Depends bool
	// Owners lists the files whose owner or capabilities could not be set.
	Owners []Owner
}

// Owner records the owner that the image gives a file, for a file whose owner or capabilities could not be set.
type Owner struct {
	Path string `json:"path"` // relative to the layer
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	// Capabilities is the value of security.capability, if the file has one.
	Capabilities []byte `json:"capabilities,omitempty"`
}

// RefusedError reports what is wrong with a layer. Retrying does not help.
type RefusedError struct{ Message string }

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

// Refuse returns a [RefusedError].
func Refuse(format string, args ...any) error {
	return &RefusedError{Message: fmt.Sprintf(format, args...)}
}

// IsRefused reports whether err means that the image itself is invalid.
func IsRefused(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused)
}

// Bounds of names.
const (
	maxPath  = 4000
	maxName  = 255
	maxDepth = 200
	maxLinks = 40
)

// clean returns a name as a path relative to the layer's root; "" is the root itself. Pure.
func clean(name string) (string, error) {
	if len(name) > maxPath {
		return "", Refuse("the layer has a name of %d bytes, %.60q...: at most %d are allowed",
			len(name), name, maxPath)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", Refuse("%q leads out of the image: names with .. are refused", name)
		case len(part) > maxName:
			return "", Refuse("%.60q... has a part of %d bytes: at most %d are allowed", name, len(part), maxName)
		case strings.ContainsRune(part, 0):
			return "", Refuse("%q has a zero byte in it", name)
		}
		parts = append(parts, part)
	}
	if len(parts) > maxDepth {
		return "", Refuse("%.60q... is %d directories deep: at most %d are allowed", name, len(parts), maxDepth)
	}
	return path.Join(parts...), nil
}

// Prefixes that mark removed files.
const (
	whiteout       = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// removed returns the name that a mark removes, and false for ordinary names. Pure.
func removed(base string) (string, bool, error) {
	name, is := strings.CutPrefix(base, whiteout)
	if !is {
		return "", false, nil
	}
	if name == "" || name == "." || name == ".." {
		return "", true, Refuse("%q is the mark of a removed file, but it removes no file of its directory", base)
	}
	return name, true, nil
}

// attributes are the attributes of a directory, set after everything in it is written.
type attributes struct {
	mode fs.FileMode
	time time.Time
}
