package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Extensions that specs need in the plane. Each runs as a process of the plane, and has a Service NAME-webhook-service
// in namespace NAME-system.
const (
	// testExtension is upstream's test extension.
	testExtension = "test-extension"
	// updater is our extension for in-place updates; see test/updater.
	updater = "in-place-updater"
)

// extensionVersion is the version of the extensions in the repository.
const extensionVersion = "v1.0.0"

// extensions returns the names of the extensions that specs need.
func extensions(chosen []spec) (names []string) {
	for _, s := range chosen {
		if s.Extension != "" && !slices.Contains(names, s.Extension) {
			names = append(names, s.Extension)
		}
	}
	return names
}

// install builds an extension and installs it into the plane with clusterctl, using the components of upstream's
// extension.
func (s *suite) install(ctx context.Context, p plane, name string) error {
	fmt.Fprintf(s.errs, "→ installing %s\n", name)
	binary := filepath.Join(s.dir, name)
	build := s.goCommand(ctx, slices.Concat([]string{"build"}, s.flags,
		[]string{"-o", binary, "sigs.k8s.io/cluster-api/test/extension"})...)
	switch name {
	case testExtension:
	case updater:
		build = s.goCommand(ctx, "build", "-o", binary, "./test/updater")
		build.Dir, build.Env = s.root, os.Environ()
	default:
		return fmt.Errorf("there is no extension %s: use %s or %s", name, testExtension, updater)
	}
	if err := build.Run(); err != nil {
		return fmt.Errorf("building %s: %w", name, err)
	}
	config, err := writeExtension(s.dir, filepath.Join(s.module, "extension", "config", "default"), name)
	if err != nil {
		return err
	}
	_, err = p.run(ctx, "clusterctl", "init", "--config", config, "--runtime-extension", name,
		"--provider-binary", name+"="+binary, "--wait-providers")
	return err
}

// writeExtension writes a repository with an extension that has upstream's components under another name, and a
// clusterctl configuration that finds it.
func writeExtension(dir, kustomization, name string) (config string, err error) {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), kustomization)
	if err != nil {
		return "", fmt.Errorf("making the components of upstream's extension: %w", err)
	}
	components, err := objects.AsYaml()
	if err != nil {
		return "", err
	}
	about, err := metadata(extensionVersion)
	if err != nil {
		return "", err
	}
	directory := filepath.Join(dir, "extensions", "runtime-extension-"+name, extensionVersion)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(directory, "runtime-extension-components.yaml")
	config = filepath.Join(dir, name+".clusterctl.yaml")
	for path, data := range map[string][]byte{
		filepath.Join(directory, "metadata.yaml"): about,
		file: bytes.ReplaceAll(components, []byte(testExtension), []byte(name)),
		config: fmt.Appendf(nil, "providers:\n- {name: %s, type: RuntimeExtensionProvider, url: %q}\n",
			name, "file://"+file),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return "", err
		}
	}
	return config, nil
}
