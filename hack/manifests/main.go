// Command manifests copies the CustomResourceDefinitions and webhook configurations of Cluster API's providers from the
// module cache into plane/manifests/upstream, where package manifests embeds them. Upstream does not offer them as a Go
// package.
//
//	go run ./hack/manifests [DIRECTORY]
//
// Each file becomes one line of JSON per object: the plane reads them at every start, and JSON is read ten times as
// fast as YAML. The result depends only on the version of the module sigs.k8s.io/cluster-api, which is written to the
// file "version".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const module = "sigs.k8s.io/cluster-api"

// sources maps directories of the result to their sources, as patterns inside the module.
var sources = map[string][]string{
	"core":      {"core/config/crd/bases/*.yaml", "core/config/webhook/manifests.yaml"},
	"bootstrap": {"bootstrap/kubeadm/config/crd/bases/*.yaml", "bootstrap/kubeadm/config/webhook/manifests.yaml"},
	"control-plane": {"controlplane/kubeadm/config/crd/bases/*.yaml",
		"controlplane/kubeadm/config/webhook/manifests.yaml"},
	"clusterctl": {"cmd/clusterctl/config/crd/bases/clusterctl.cluster.x-k8s.io_providers.yaml"},
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	out := filepath.Join("plane", "manifests", "upstream")
	if len(args) > 0 {
		out = args[0]
	}
	dir, version, err := locate()
	if err != nil {
		return err
	}
	files := map[string][]byte{"version": []byte(version + "\n")}
	for directory, patterns := range sources {
		for _, pattern := range patterns {
			if err := convert(files, directory, filepath.Join(dir, pattern)); err != nil {
				return err
			}
		}
	}
	return write(out, files)
}

// locate returns the directory and the version of the module. It downloads the module in the first build on a machine.
// A checkout that replaces the module in go.work is also accepted.
func locate() (dir, version string, err error) {
	for _, command := range [][]string{{"list", "-m", "-json"}, {"mod", "download", "-json"}} {
		cmd := exec.Command("go", append(command, module)...)
		cmd.Stderr = os.Stderr
		text, err := cmd.Output()
		var found struct{ Dir, Version, Error string }
		if json.Unmarshal(text, &found) == nil && err == nil && found.Dir != "" {
			return found.Dir, found.Version, nil
		}
		if command[0] == "mod" {
			return "", "", fmt.Errorf("downloading %s: %w %s", module, err, found.Error)
		}
	}
	return "", "", fmt.Errorf("%s is neither in the workspace nor in the module cache", module)
}

// convert reads the files that match pattern, and adds their content, as JSON, to the map called files. There, the keys
// are paths below directory.
func convert(files map[string][]byte, directory, pattern string) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("nothing matches %s; has upstream moved it?", pattern)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var lines bytes.Buffer
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			object, err := yaml.YAMLToJSON(document)
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			if bytes.Equal(object, []byte("null")) {
				continue
			}
			if err := json.Compact(&lines, object); err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			lines.WriteByte('\n')
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml") + ".json"
		if name == "manifests.json" {
			name = "webhooks.json"
		}
		files[filepath.Join(directory, name)] = lines.Bytes()
	}
	return nil
}

// write makes the directory out contain exactly the given files and its own README.md. It does not rewrite files that
// are already correct.
func write(out string, files map[string][]byte) error {
	err := filepath.WalkDir(out, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(out, path)
		if err != nil || name == "README.md" {
			return err
		}
		if _, wanted := files[name]; wanted {
			return nil
		}
		return os.Remove(path)
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for name, data := range files {
		path := filepath.Join(out, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
