// Command peer runs Go tests of the Runtime SDK against the client that Cluster API uses itself. That one is internal to its module, so its source is
// copied from the module cache into .cache/peer, under other import paths, and laid over the tree for this one run: nothing of it is
// committed, and without this command it is not there. The tests of speed, in testdata, are laid over it too; other
// tests have the build tag "peer".
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
	// folder is where the import path ours lies in the tree.
	folder = "runtime/internal/peer"
	// tests are laid over the package measured. They start a server of their own in TestMain, which is nothing for the package itself.
	tests    = "hack/peer/testdata"
	measured = "runtime/internal/speed"
)

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
		if err := copyPackage(overlay, filepath.Join(source, "internal", "runtime", name), filepath.Join(scratch, name), filepath.Join(root, folder, name)); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(root, tests, "*_test.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no tests in %s: run this command in the root of the repository", tests)
	}
	for _, file := range files {
		overlay[filepath.Join(root, measured, filepath.Base(file))] = file
	}
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	file := filepath.Join(scratch, "overlay.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-vet=off", "-tags", "peer", "-overlay", file}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// locate returns the folder of the module.
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

// copyPackage copies the sources of a package without its tests, and lays them over the folder where they are imported from.
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
