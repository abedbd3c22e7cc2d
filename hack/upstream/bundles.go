package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// bundleVersion reads a Kubernetes version from a file in kube.
func bundleVersion(root, file string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, "kube", file))
	if err != nil {
		return "", fmt.Errorf("reading a version of Kubernetes: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// bundled returns an error if a spec needs a bundle that is not built.
func bundled(root string, chosen []spec) error {
	for _, s := range chosen {
		for _, file := range s.Bundles {
			version, err := bundleVersion(root, file)
			if err != nil {
				return err
			}
			if _, err := os.Stat(filepath.Join(root, "bin", "bundles", version)); err != nil {
				return fmt.Errorf("spec %s needs a bundle that is not built: run kube/build %s bin/bundles", s.Name, version)
			}
		}
	}
	return nil
}
