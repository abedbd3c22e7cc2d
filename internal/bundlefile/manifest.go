// Package bundlefile reads and writes node bundles: archives with the programs and images that make a computer a node
// of one Kubernetes version.
//
// A bundle is a tar archive compressed by gzip. Its first file is manifest.json, which lists all other files in order,
// with their sizes and SHA-256 digests. Each file is bin/NAME, cni/NAME or images/NAME.tar. A bundle contains nothing
// else: no links, no directories, no other files. Readers use nothing in a bundle before they have verified it.
package bundlefile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ManifestName is the name of a bundle's first file, and of the manifest in a directory.
const ManifestName = "manifest.json"

// Limits of a bundle.
const (
	manifestLimit = 1 << 20
	fileLimit     = 1 << 30
	totalLimit    = 4 << 30
	mostFiles     = 128
)

// ErrDamaged reports that a bundle, or what was unpacked from it, does not match its manifest.
var ErrDamaged = errors.New("the bundle is damaged")

// Manifest describes the content of a bundle.
type Manifest struct {
	// Kubernetes is the Kubernetes version, such as v1.36.3.
	Kubernetes string `json:"kubernetes"`
	// Architecture is the architecture of the programs, as GOARCH.
	Architecture string `json:"architecture"`
	// Files are all other files, in order.
	Files []File `json:"files"`
	// Images are the images in the files below images/.
	Images []Image `json:"images"`
}

// File is one file of a bundle: its path in the bundle, its size in bytes and its SHA-256 digest in hex.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Image is an image in a file of a bundle. The file is an OCI archive.
type Image struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

var (
	versionText = regexp.MustCompile(`^v1\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})$`)
	pathText    = regexp.MustCompile(`^(bin/[a-z0-9][a-z0-9._-]{0,62}|cni/[a-z0-9][a-z0-9._-]{0,62}|` +
		`images/[a-z0-9][a-z0-9._-]{0,58}\.tar)$`)
	digestText = regexp.MustCompile(`^[0-9a-f]{64}$`)
	imageText  = regexp.MustCompile(`^[a-z0-9][a-z0-9./_-]{0,200}:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

// ValidVersion reports whether a text is a Kubernetes release such as v1.36.3.
func ValidVersion(text string) bool { return versionText.MatchString(text) }

// ValidArchitecture reports whether bundles exist for an architecture.
func ValidArchitecture(text string) bool { return text == "amd64" || text == "arm64" }

// ValidDigest reports whether a text is a SHA-256 digest in hex.
func ValidDigest(text string) bool { return digestText.MatchString(text) }

// FileName returns the file name of a bundle.
func FileName(version, architecture string) string {
	return version + "-linux-" + architecture + ".tar.gz"
}

// ParseFileName is the inverse of [FileName].
func ParseFileName(name string) (version, architecture string, ok bool) {
	name, ok = strings.CutSuffix(name, ".tar.gz")
	version, architecture, found := strings.Cut(name, "-linux-")
	return version, architecture, ok && found && ValidVersion(version) && ValidArchitecture(architecture)
}

// Check returns an error if the manifest is invalid.
func (m *Manifest) Check() error {
	switch {
	case !ValidVersion(m.Kubernetes):
		return fmt.Errorf("%w: %q is not a version of Kubernetes", ErrDamaged, m.Kubernetes)
	case !ValidArchitecture(m.Architecture):
		return fmt.Errorf("%w: hosts can't have the architecture %q", ErrDamaged, m.Architecture)
	case len(m.Files) == 0 || len(m.Files) > mostFiles:
		return fmt.Errorf("%w: it has %d files, but must have 1 to %d", ErrDamaged, len(m.Files), mostFiles)
	}
	var total int64
	known := map[string]bool{}
	for _, f := range m.Files {
		switch {
		case !pathText.MatchString(f.Path):
			return fmt.Errorf("%w: a bundle can't have a file %q", ErrDamaged, f.Path)
		case known[f.Path]:
			return fmt.Errorf("%w: it lists %s twice", ErrDamaged, f.Path)
		case f.Size <= 0 || f.Size > fileLimit:
			return fmt.Errorf("%w: %s has %d bytes, but must have 1 to %d", ErrDamaged, f.Path, f.Size, fileLimit)
		case !digestText.MatchString(f.SHA256):
			return fmt.Errorf("%w: %s has no valid SHA-256 digest", ErrDamaged, f.Path)
		}
		known[f.Path] = true
		total += f.Size
	}
	if total > totalLimit {
		return fmt.Errorf("%w: its files have %d bytes together, but at most %d are allowed", ErrDamaged, total,
			int64(totalLimit))
	}
	for _, i := range m.Images {
		if !imageText.MatchString(i.Name) || !known[i.Path] || !strings.HasPrefix(i.Path, "images/") {
			return fmt.Errorf("%w: image %q has an invalid name, or is in no file of the bundle", ErrDamaged, i.Name)
		}
	}
	return nil
}

// Image returns the full name of the image whose repository ends with "/" and name, or "" if there is none.
func (m *Manifest) Image(name string) string {
	at := slices.IndexFunc(m.Images, func(i Image) bool {
		repository, _, _ := strings.Cut(i.Name, ":")
		return strings.HasSuffix(repository, "/"+name)
	})
	if at < 0 {
		return ""
	}
	return m.Images[at].Name
}

// Size returns the total size of the files in bytes.
func (m *Manifest) Size() int64 {
	var total int64
	for _, f := range m.Files {
		total += f.Size
	}
	return total
}
