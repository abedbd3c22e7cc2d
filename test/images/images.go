// Package images makes the container images that others' suites run, without an engine and without a registry:
// programs of Go modules, and Debian's packages. They lie in an OCI image layout, which `capstan image load` takes.
//
// table.yaml says what each image is made of and which names of upstream's tables lead to it, and which images are not
// made, with the reason. The same packages, Go release and directory of modules make the same digests: DIR/packages.lock
// says which packages were taken, and is used again while it is there.
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

// Table says what is made.
type Table struct {
	Images []Image `json:"images"`
	// Missing are images of upstream's tables that are not made, with the reason.
	Missing map[string]string `json:"missing"`
	// LeftOut are packages that others only need while they are installed.
	LeftOut []string `json:"leftOut"`
}

// Image is an image of the table. What it is made of has the order of the fields: a later file replaces an earlier one.
type Image struct {
	// Names are NAME:TAG, the first of them in full; others with another name in full, too.
	Names []string `json:"names"`
	// For are the suites that run it: conformance, list (those conformance tests that make test runs), critest, software.
	For []string `json:"for"`
	// Base is the first name of an image of the table whose layers and configuration this one begins with.
	Base string `json:"base,omitempty"`
	// Packages are Debian's, with what they depend on.
	Packages []string `json:"packages,omitempty"`
	// KeepPrograms are the only programs of the packages that stay; none means all.
	KeepPrograms []string `json:"keepPrograms,omitempty"`
	// Programs are packages of Go by the path of their program.
	Programs map[string]Program `json:"programs,omitempty"`
	// Copies are files of the Kubernetes module by their path in the image.
	Copies map[string]string `json:"copies,omitempty"`
	// Texts are files by their path.
	Texts map[string]string `json:"texts,omitempty"`
	// Links are symbolic links by their path.
	Links map[string]string `json:"links,omitempty"`
	// Dirs are directories with their modes, in octal.
	Dirs map[string]string `json:"dirs,omitempty"`
	// Users and Groups are lines of /etc/passwd and /etc/group beside the usual ones.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`

	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
	User       string   `json:"user,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Env        []string `json:"env,omitempty"`
}

// Program is a program of Go. One of Module is built in the sources of that module, by its own go.mod; others by
// hack/kubetests/go.mod.
type Program struct {
	Package string `json:"package"`
	// Module is NAME@VERSION, Sum its hash as go.sum has it.
	Module string `json:"module,omitempty"`
	Sum    string `json:"sum,omitempty"`
	// Mode is that of the file, in octal; default 0755.
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
			for _, suite := range img.For { // suites may have images of their own by one name
				if names[suite+" "+name] || t.Missing[name] != "" {
					return t, fmt.Errorf("image %s is in the table twice", name)
				}
				names[suite+" "+name] = true
			}
		}
	}
	return t, nil
}

// Of returns the images of a suite and those that they are based on. One of the suite itself wins over one of another
// suite by the same name.
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
