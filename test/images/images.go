// Package images builds the container images that other projects' test suites run, without a container engine and
// without a registry, from programs of Go modules and Debian packages. It writes an OCI image layout, which `capstan
// image load` accepts.
//
// table.yaml lists the content of each image and the names that it has in upstream's tables. It also lists images that
// are not built, with the reason. The same packages, Go release and directory of modules produce the same digests:
// DIR/packages.lock records the packages, and is reused while it exists.
package images

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed table.yaml
var tableYAML []byte

// Table says which images to build.
type Table struct {
	Images []Image `json:"images"`
	// Missing are images of upstream's tables that are not built, with the reason.
	Missing map[string]string `json:"missing"`
	// LeftOut are packages that other packages need only during installation.
	LeftOut []string `json:"leftOut"`
}

// Image is an image of the table. Its content is added in the order of the fields: a later file replaces an earlier
// one.
type Image struct {
	// Names are the image's names as REGISTRY/NAME:TAG.
	Names []string `json:"names"`
	// For lists the suites that run the image: conformance, critest, software, or list (the conformance tests that
	// "make test" runs).
	For []string `json:"for"`
	// Base is the first name of another image of the table. This image starts from the layers and the configuration of
	// that image.
	Base string `json:"base,omitempty"`
	// Packages are Debian packages; their dependencies are added.
	Packages []string `json:"packages,omitempty"`
	// KeepPrograms are the only programs of the packages to keep. If there are none, all programs are kept.
	KeepPrograms []string `json:"keepPrograms,omitempty"`
	// Programs maps paths in the image to Go programs.
	Programs map[string]Program `json:"programs,omitempty"`
	// Copies maps paths in the image to paths of files in the Kubernetes module.
	Copies map[string]string `json:"copies,omitempty"`
	// Texts maps paths in the image to the contents of files.
	Texts map[string]string `json:"texts,omitempty"`
	// Links maps paths of symbolic links to their targets.
	Links map[string]string `json:"links,omitempty"`
	// Dirs maps paths of directories to their modes, in octal.
	Dirs map[string]string `json:"dirs,omitempty"`
	// Users and Groups are additional lines of /etc/passwd and /etc/group.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`

	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
	User       string   `json:"user,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Env        []string `json:"env,omitempty"`
}

// Program is a Go program. If Module is set, it is built in the sources of that module, with the module's own go.mod;
// otherwise with hack/kubetests/go.mod.
type Program struct {
	Package string `json:"package"`
	// Module is NAME@VERSION; Sum is its hash in the format of go.sum.
	Module string `json:"module,omitempty"`
	Sum    string `json:"sum,omitempty"`
	// Mode is the mode of the file, in octal. Default: 0755.
	Mode string `json:"mode,omitempty"`
}

// Read returns the table.
func Read() (Table, error) { return parse(tableYAML) }

// parse reads a table and checks it. Pure.
func parse(text []byte) (Table, error) {
	var t Table
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), &t); err != nil {
		return t, fmt.Errorf("reading the table of images: %w", err)
	}
	names := map[string]bool{}
	for i, img := range t.Images {
		if len(img.Names) == 0 || len(img.For) == 0 {
			return t, fmt.Errorf("image %d of the table has no name or no suite", i)
		}
		if img.Base != "" &&
			!slices.ContainsFunc(t.Images[:i], func(b Image) bool { return b.Names[0] == img.Base }) {
			return t, fmt.Errorf(
				"image %s is based on %s, which is not before it in the table",
				img.Names[0],
				img.Base,
			)
		}
		for _, name := range img.Names {
			first, rest, slash := strings.Cut(name, "/")
			if !slash || !strings.Contains(first, ".") || !strings.Contains(rest, ":") {
				return t, fmt.Errorf("%q of the table must be REGISTRY/NAME:TAG", name)
			}
			for _, suite := range img.For { // suites may have different images of the same name
				if names[suite+" "+name] || t.Missing[name] != "" {
					return t, fmt.Errorf("image %s is in the table twice", name)
				}
				names[suite+" "+name] = true
			}
		}
	}
	return t, nil
}

// Of returns the images of a suite and their base images. An image of the suite itself takes precedence over one of
// another suite with the same name.
func (t Table) Of(suite string) []Image {
	own, bases := map[string]bool{}, map[string]bool{}
	for _, img := range t.Images {
		if slices.Contains(img.For, suite) {
			own[img.Names[0]] = true
		}
	}
	var all []Image
	for _, img := range slices.Backward(t.Images) {
		if slices.Contains(img.For, suite) || bases[img.Names[0]] && !own[img.Names[0]] {
			bases[img.Base] = true
			all = append(all, img)
		}
	}
	slices.Reverse(all)
	return all
}
