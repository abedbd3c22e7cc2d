// Package image defines the types that the parts of Capstan's image store exchange. The parts are the store itself
// (image/store) in the process capstan-images, the `capstan image` commands, and the hosts of the dock.
//
// One store in HOME/images serves all hosts of a dock. Only capstan-images writes there, as the user who runs the dock.
// In these packages, this user is called the machine's user. A host sees the unpacked layers read-only at [LayersPath]
// and requests images at the socket [SocketPath]. The protocol is HTTP with JSON bodies of this package's types;
// docs/images.md describes it.
package image

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
)

// The store's paths on a host of the dock.
const (
	// LayersPath is the directory with the unpacked layers, read-only.
	LayersPath = "/opt/capstan/layers"
	// SocketPath is the host's own socket for requests.
	SocketPath = "/opt/capstan/images/images.sock"
)

// Image is an image in the store.
type Image struct {
	// ID is the digest of the image's configuration, as `docker images` shows it.
	ID string `json:"id"`
	// Digest is the digest of the image's manifest.
	Digest string `json:"digest"`
	// Names (NAME:TAG) and Digests (NAME@DIGEST) are the references by which the asker (a host or the machine's user)
	// knows the image.
	Names   []string `json:"names,omitempty"`
	Digests []string `json:"digests,omitempty"`
	// Size is the size of the unpacked layers in bytes. A layer that several images share counts in full for each of them.
	Size     int64     `json:"size"`
	Created  time.Time `json:"created"`
	Platform string    `json:"platform"` // "linux/amd64"
	// Layers are the names of the layers' directories below [LayersPath], lowest first.
	Layers []string `json:"layers,omitempty"`
	// IDs is "all" if files belong to the users that the image names. It is "one" if all files belong to root and
	// LAYER.owners, next to the layer's directory, lists the other owners.
	IDs string `json:"ids,omitempty"`
	// Config is the image's configuration (application/vnd.oci.image.config.v1+json); lists omit it.
	Config json.RawMessage `json:"config,omitempty"`
	// Pinned reports that the machine's user has a name for the image. A host that frees disk space keeps a pinned image.
	Pinned bool `json:"pinned,omitempty"`
	// Hosts is the number of hosts that hold the image; only the machine's user receives it.
	Hosts int `json:"hosts,omitempty"`
}

// The values of [Image.IDs].
const (
	AllIDs = "all"
	OneID  = "one"
)

// Question is a host's request.
type Question struct {
	// Image is a name, a name with a digest, or the id of an image.
	Image string `json:"image"`
	// Auth is the registry credential, for pulls only.
	Auth *Auth `json:"auth,omitempty"`
}

// Auth is a credential as pull secrets and the CRI represent it.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"` // base64 of USERNAME:PASSWORD
	IdentityToken string `json:"identityToken,omitempty"`
	RegistryToken string `json:"registryToken,omitempty"`
}

// Empty reports whether there is no credential. Pure.
func (a *Auth) Empty() bool { return a == nil || *a == Auth{} }

// FS reports the store's disk usage.
type FS struct {
	// Path is the store's directory on the host.
	Path   string `json:"path"`
	Bytes  uint64 `json:"bytes"`  // used by images: layers and blobs
	Inodes uint64 `json:"inodes"` // approximate number of inodes
	Free   uint64 `json:"free"`   // bytes left on the disk
}

// Event is one line of a streamed answer. An answer has any number of lines with Text, then one with Images or Error.
type Event struct {
	Text   string  `json:"text,omitempty"`
	Images []Image `json:"images,omitempty"`
	Error  *Error  `json:"error,omitempty"`
}

// Code classifies an [Error].
type Code string

// The codes of errors.
const (
	CodeInvalid     Code = "Invalid"     // the question or the image itself is wrong: do not retry
	CodeNotFound    Code = "NotFound"    // the image does not exist
	CodeDenied      Code = "Denied"      // the registry requires another credential
	CodeUnavailable Code = "Unavailable" // the registry can't be reached or is busy: retry
	CodeNoSpace     Code = "NoSpace"     // the disk is full
	CodeBusy        Code = "Busy"        // the host makes too many requests at a time
	CodeInUse       Code = "InUse"       // a host holds the image
	CodeFailed      Code = "Failed"      // anything else; the message explains
)

// Error is the store's answer when a request fails.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Advice  string `json:"advice,omitempty"` // what to do
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Hint returns the advice.
func (e *Error) Hint() string { return e.Advice }

// Errorf returns an [Error].
func Errorf(code Code, advice, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Advice: advice}
}

// maxReference bounds the length of a name.
const maxReference = 1024

// Canonical returns the full form of an image name: web becomes docker.io/library/web:latest. It drops the tag of a
// name that has a digest. Pure.
func Canonical(name string) (string, error) {
	const advice = "a name looks like web:1, registry.example.com/team/web:1 or web@sha256:..."
	if len(name) > maxReference {
		return "", Errorf(CodeInvalid, advice, "the name of an image has %d bytes: at most %d are allowed", len(name),
			maxReference)
	}
	named, err := reference.ParseNormalizedNamed(strings.TrimSpace(name))
	if err != nil {
		return "", Errorf(CodeInvalid, advice, "%.200q is not the name of an image: %v", name, err)
	}
	if digested, is := named.(reference.Canonical); is {
		return reference.TrimNamed(named).Name() + "@" + digested.Digest().String(), nil
	}
	return reference.TagNameOnly(named).String(), nil
}

// Repository returns a canonical name without its tag or digest. Pure.
func Repository(canonical string) string {
	if name, _, is := strings.Cut(canonical, "@"); is {
		return name
	}
	if at := strings.LastIndexByte(canonical, ':'); at > strings.LastIndexByte(canonical, '/') {
		return canonical[:at]
	}
	return canonical
}

// Short returns the form of a canonical name that people type. Pure.
func Short(canonical string) string {
	named, err := reference.ParseNormalizedNamed(canonical)
	if err != nil {
		return canonical
	}
	return reference.FamiliarString(named)
}

// IsID reports whether text is a digest, of a manifest or a configuration. Pure.
func IsID(text string) bool {
	hex, is := strings.CutPrefix(text, "sha256:")
	return is && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
