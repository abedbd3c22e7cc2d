// Package image holds what the parts of Capstan's image store say to each other: the store itself (image/store) in the
// process capstan-images, its command line, and the hosts of the dock.
//
// There is one store for all hosts of a dock, in HOME/images. Only capstan-images writes there, as the dock's user; a
// host sees the unpacked layers read-only at [LayersPath], and asks for images at the socket [SocketPath], by the
// protocol that docs/images.md describes: HTTP and JSON, the types of this package.
package image

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
)

// What a host of the dock sees of the store.
const (
	// LayersPath is the directory with the unpacked layers, read-only.
	LayersPath = "/opt/capstan/layers"
	// SocketPath is the host's own socket to ask at.
	SocketPath = "/opt/capstan/images/images.sock"
)

// Image is an image of the store.
type Image struct {
	// ID is the digest of the image's configuration, as `docker images` shows it.
	ID string `json:"id"`
	// Digest is that of its manifest.
	Digest string `json:"digest"`
	// Names are NAME:TAG, Digests NAME@DIGEST, as whoever asks knows the image.
	Names   []string `json:"names,omitempty"`
	Digests []string `json:"digests,omitempty"`
	// Size is what the unpacked layers take, in bytes. Layers that images share count for each of them.
	Size     int64     `json:"size"`
	Created  time.Time `json:"created"`
	Platform string    `json:"platform"` // "linux/amd64"
	// Layers are the names of the layers' directories below [LayersPath], lowest first.
	Layers []string `json:"layers,omitempty"`
	// IDs is "all" if the layers' files belong to whom the image says, "one" if all belong to root and
	// LAYER.owners beside a layer's directory says who else there is.
	IDs string `json:"ids,omitempty"`
	// Config is the image's configuration (application/vnd.oci.image.config.v1+json); lists leave it out.
	Config json.RawMessage `json:"config,omitempty"`
	// Hosts says how many hosts hold the image; for the machine's user only.
	Hosts int `json:"hosts,omitempty"`
}

// The levels of ids.
const (
	AllIDs = "all"
	OneID  = "one"
)

// Question is what a host asks.
type Question struct {
	// Image is a name, a name with a digest, or the id of an image.
	Image string `json:"image"`
	// Auth is the credential for the registry; for pulls only.
	Auth *Auth `json:"auth,omitempty"`
}

// Auth is a credential, as pull secrets and the CRI have it.
type Auth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"` // base64 of USERNAME:PASSWORD
	IdentityToken string `json:"identityToken,omitempty"`
	RegistryToken string `json:"registryToken,omitempty"`
}

// Empty reports whether there is no credential. Pure.
func (a *Auth) Empty() bool { return a == nil || *a == Auth{} }

// FS is how full the store is.
type FS struct {
	// Path is where the host sees the store.
	Path   string `json:"path"`
	Bytes  uint64 `json:"bytes"`  // that images take, layers and blobs
	Inodes uint64 `json:"inodes"` // about as many
	Free   uint64 `json:"free"`   // bytes left on the disk
}

// Event is a line of the answer to what takes long: any number of Text, then Images or Error.
type Event struct {
	Text   string  `json:"text,omitempty"`
	Images []Image `json:"images,omitempty"`
	Error  *Error  `json:"error,omitempty"`
}

// Code classifies an [Error].
type Code string

// The codes.
const (
	CodeInvalid     Code = "Invalid"     // the question, or the image itself, is wrong: trying again does not help
	CodeNotFound    Code = "NotFound"    // there is no such image
	CodeDenied      Code = "Denied"      // the registry wants another credential
	CodeUnavailable Code = "Unavailable" // the registry can't be reached, or is busy: try again
	CodeNoSpace     Code = "NoSpace"     // the disk is full
	CodeBusy        Code = "Busy"        // the host asks too much at a time
	CodeInUse       Code = "InUse"       // a host holds the image
	CodeFailed      Code = "Failed"      // anything else; the message says what
)

// Error is what the store answers if it can't do something.
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

// maxReference bounds the text of a name.
const maxReference = 1024

// Canonical returns the whole form of an image's name: web becomes docker.io/library/web:latest. Names with a digest
// lose their tag. Pure.
func Canonical(name string) (string, error) {
	const advice = "a name looks like web:1, registry.example.com/team/web:1 or web@sha256:..."
	if len(name) > maxReference {
		return "", Errorf(CodeInvalid, advice, "the name of an image has %d bytes: at most %d work", len(name), maxReference)
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

// IsID reports whether text is a digest, of an image or its configuration. Pure.
func IsID(text string) bool {
	hex, is := strings.CutPrefix(text, "sha256:")
	return is && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}
