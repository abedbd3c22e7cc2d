// Package layer unpacks one layer of an image into a directory, as overlayfs wants it.
//
// A removed file is a character device 0:0, and a directory that hides what is below it has the attribute
// user.overlay.opaque: both work for ordinary users, and in every user namespace (mount option userxattr).
//
// What a layer holds is hostile until proved otherwise. No name leads out of the directory, nothing follows a link
// that somebody else made, and there are bounds for everything that grows.
package layer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Opaque is the attribute of a directory that hides what lower layers have in it. Its value is "y".
const Opaque = "user.overlay.opaque"

// MaxID is the largest user or group id that a layer may give to a file; files of others belong to [Nobody].
const MaxID = 65535

// Nobody is the user and group of files whose owner no host has.
const Nobody = 65534

// Defaults of [Limits].
const (
	DefaultBytes   = 32 << 30
	DefaultEntries = 500_000
	DefaultRatio   = 200
	// FreeRatio is how many bytes a layer may unpack to, however small it is when packed.
	FreeRatio = 64 << 20
)

// Limits bound one layer. Fields that are 0 have the defaults above.
type Limits struct {
	Bytes   int64 // of all files together
	Entries int   // files, directories and links
	Ratio   int64 // bytes unpacked for each byte packed, beyond FreeRatio; for whoever unpacks the stream
}

// Default fills in what is not set. Pure.
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

// Options say how a layer is unpacked.
type Options struct {
	// Parents are the directories of the layers below, lowest first.
	Parents []string
	// AllIDs says that files can be given to every user up to MaxID. Elsewhere all belong to the caller, and what the
	// layer says is in [Result.Owners].
	AllIDs bool
	Limits Limits
	// Room is asked now and then whether the disk has room for more. May be nil.
	Room func() error
}

// Result describes an unpacked layer.
type Result struct {
	Bytes   int64 // of files
	Entries int
	// Depends says that the directory is right on top of its parents only: the layer has files in directories that it
	// does not describe itself.
	Depends bool
	// Owners lists what could not be given to its owner.
	Owners []Owner
}

// Owner is what a layer says about a file beyond what the caller's ids can show.
type Owner struct {
	Path string `json:"path"` // relative to the layer
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	// Capabilities is the value of security.capability, if the file has one.
	Capabilities []byte `json:"capabilities,omitempty"`
}

// RefusedError says what is wrong with a layer. Trying again does not help.
type RefusedError struct{ Message string }

// Error returns the message.
func (e *RefusedError) Error() string { return e.Message }

// Refuse returns a [RefusedError].
func Refuse(format string, args ...any) error {
	return &RefusedError{Message: fmt.Sprintf(format, args...)}
}

// IsRefused reports whether err says that an image is wrong in itself.
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

// clean returns a name as a path relative to the layer's root, "" for the root itself. Pure.
func clean(name string) (string, error) {
	if len(name) > maxPath {
		return "", Refuse("the layer has a name of %d bytes, %.60q...: at most %d work", len(name), name, maxPath)
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return "", Refuse("%q leads out of the image: names with .. are refused", name)
		case len(part) > maxName:
			return "", Refuse("%.60q... has a part of %d bytes: at most %d work", name, len(part), maxName)
		case strings.ContainsRune(part, 0):
			return "", Refuse("%q has a zero byte in it", name)
		}
		parts = append(parts, part)
	}
	if len(parts) > maxDepth {
		return "", Refuse("%.60q... is %d directories deep: at most %d work", name, len(parts), maxDepth)
	}
	return path.Join(parts...), nil
}

// Marks of removed files.
const (
	whiteout       = ".wh."
	whiteoutMeta   = ".wh..wh."
	whiteoutOpaque = ".wh..wh..opq"
)

// removed returns the name that a mark removes, and false for names that are no marks. Pure.
func removed(base string) (string, bool, error) {
	name, is := strings.CutPrefix(base, whiteout)
	if !is {
		return "", false, nil
	}
	if name == "" || name == "." || name == ".." {
		return "", true, Refuse("%q removes no file of its directory", base)
	}
	return name, true, nil
}

// attributes are those of a directory, given to it when everything is in it.
type attributes struct {
	mode fs.FileMode
	time time.Time
}
