// Command peer runs Go tests of the Runtime SDK against the client that Cluster API uses itself. That client is internal
// to its module, so its source is copied from the module cache into .cache/peer, under import paths of ours, and laid over
// the tree for this one run. The tests in testdata are laid over the packages that they test. Without this command, neither
// those packages nor those tests exist.
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
	// theirs and ours are import paths: what is copied, and what the tests import.
	theirs = module + "/internal/runtime"
	ours   = "github.com/capstan-dev/capstan/runtime/internal/peer"
	// directory is where the import path ours would lie in the tree. It exists in the overlay only.
	directory = "runtime/internal/peer"
	// tests holds a directory of tests for each package in tested.
	tests = "hack/peer/testdata"
)

// tested maps directories of tests to the packages that they are laid over. The tests of speed start a server in TestMain,
// which the package itself must not.
var tested = map[string]string{
	"speed":  "runtime/internal/speed",
	"server": "runtime/server",
}

// packages of theirs that the client consists of.
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
	for _, name := range packages {
		if err := copyPackage(overlay, filepath.Join(source, "internal", "runtime", name),
			filepath.Join(scratch, name), filepath.Join(root, directory, name)); err != nil {
			return err
		}
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

// layTests lays the tests of one directory over a package.
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

// locate returns the directory of the module.
func locate() (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	var found struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(text, &found); err != nil || jsonErr != nil || found.Dir == "" {
		return "", fmt.Errorf("downloading %s: %w %s", module, errors.Join(err, jsonErr), found.Error)
	}
	return found.Dir, nil
}

// copyPackage copies the sources of a package without its tests, and lays them over the directory that is imported.
func copyPackage(overlay map[string]string, from, to, over string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no source in %s; has upstream moved it?", from)
	}
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
		copied := filepath.Join(to, filepath.Base(file))
		if err := os.WriteFile(copied, []byte(strings.ReplaceAll(string(text), `"`+theirs+"/", `"`+ours+"/")), 0o644); err != nil {
			return err
		}
		overlay[filepath.Join(over, filepath.Base(file))] = copied
	}
	return nil
}
