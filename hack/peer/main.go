// Command peer runs Go tests of the Runtime SDK against the client that Cluster API itself uses. That client is
// internal to its module, so its source is copied from the module cache into .cache/peer, under import paths of ours,
// and overlaid on the tree for this run only. The tests in testdata are overlaid on the packages that they test.
// Without this command, neither those packages nor those tests exist.
//
// For the measurements there are also copies of our own client that leave the transport, the encoding, or both, to the
// standard library.
//
//	go run ./hack/peer ./runtime/internal/speed -count=1 -v
//
// It must run in the root of the repository.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	module = "sigs.k8s.io/cluster-api"
	// theirs and ours are import paths. The originals of the copied packages are below theirs. The copies, which tests
	// import, are below ours.
	theirs = module + "/internal/runtime"
	ours   = internal + "/peer"
	// internal is the import path of the packages that make up our own client.
	internal = "github.com/capstan-dev/capstan/runtime/internal"
	// directory is the directory in the tree for the import path ours. It exists only in the overlay.
	directory = "runtime/internal/peer"
	// tests holds a directory of tests for each package in tested.
	tests = "hack/peer/testdata"
)

// tested maps directories of tests to the packages that they are overlaid on. The tests of speed start a server in
// TestMain. The package's own tests must not do that.
var tested = map[string]string{
	"speed":  "runtime/internal/speed",
	"server": "runtime/server",
}

// plain holds packages that replace ours and leave the work to the standard library: post and encode.
const plain = "hack/peer/testdata/plain"

// variants are copies of our own client, each with different packages from plain.
var variants = map[string][]string{
	"http":     {"post"},
	"json":     {"encode"},
	"httpjson": {"post", "encode"},
}

// packages are the packages below the path theirs that make up the client.
var packages = []string{"client", "registry", "metrics"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	source, err := locate()
	if err != nil {
		return err
	}
	scratch := filepath.Join(root, ".cache", "peer")
	if err := os.RemoveAll(scratch); err != nil {
		return err
	}
	overlay := map[string]string{}
	copies := copier{root: root, scratch: scratch, overlay: overlay}
	for _, name := range packages {
		from := filepath.Join(source, "internal", "runtime", name)
		if err := copies.copy(from, name, map[string]string{theirs + "/": ours + "/"}); err != nil {
			return err
		}
	}
	if err := copies.copyVariants(); err != nil {
		return err
	}
	for name, over := range tested {
		if err := layTests(overlay, filepath.Join(root, tests, name), filepath.Join(root, over)); err != nil {
			return err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	file := filepath.Join(scratch, "overlay.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-vet=off", "-overlay", file}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// layTests overlays the tests of one directory on a package.
func layTests(overlay map[string]string, from, over string) error {
	files, err := filepath.Glob(filepath.Join(from, "*_test.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no tests in %s: run this command in the root of the repository", from)
	}
	for _, file := range files {
		overlay[filepath.Join(over, filepath.Base(file))] = file
	}
	return nil
}

// locate returns the directory of the module: a checkout, if go.work replaces the module by one, else the directory in
// the module cache.
func locate() (string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	list.Stderr = os.Stderr
	if text, err := list.Output(); err != nil {
		return "", fmt.Errorf("finding %s: %w", module, err)
	} else if dir := strings.TrimSpace(string(text)); dir != "" {
		return dir, nil
	}
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	var found struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(text, &found); err != nil || jsonErr != nil || found.Dir == "" {
		return "", fmt.Errorf("downloading %s: %w %s", module, errors.Join(err, jsonErr), found.Error)
	}
	return found.Dir, nil
}

// copier copies packages into the scratch directory, and overlays them on directories below ours.
type copier struct {
	root, scratch string
	overlay       map[string]string
}

// copyVariants copies our client once for each variant, with the packages that the variant uses.
func (c copier) copyVariants() error {
	for _, name := range []string{"post", "encode"} {
		if err := c.copy(filepath.Join(c.root, plain, name), "plain/"+name, nil); err != nil {
			return err
		}
	}
	for variant, replaced := range variants {
		imports := map[string]string{}
		for _, name := range replaced {
			imports[internal+"/"+name+`"`] = ours + "/plain/" + name + `"`
		}
		// The package wire encodes requests; its copy uses the variant's encoding.
		imports[internal+`/wire"`] = ours + "/" + variant + `/wire"`
		for from, to := range map[string]string{"runtime/client": "client", "runtime/internal/wire": "wire"} {
			if err := c.copy(filepath.Join(c.root, from), variant+"/"+to, imports); err != nil {
				return err
			}
		}
	}
	return nil
}

// copy copies the sources of a package without its tests, and replaces prefixes of import paths.
func (c copier) copy(from, name string, imports map[string]string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no source in %s; has it moved?", from)
	}
	to := filepath.Join(c.scratch, name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		source := string(text)
		for old, replacement := range imports {
			source = strings.ReplaceAll(source, `"`+old, `"`+replacement)
		}
		copied := filepath.Join(to, filepath.Base(file))
		if err := os.WriteFile(copied, []byte(source), 0o644); err != nil {
			return err
		}
		c.overlay[filepath.Join(c.root, directory, name, filepath.Base(file))] = copied
	}
	return nil
}
