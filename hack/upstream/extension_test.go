package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnExtensionHasUpstreamsComponentsButForTheName(t *testing.T) {
	theirs, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"kustomization.yaml": "namespace: test-extension-system\nnamePrefix: test-extension-\nresources: [service.yaml]\n",
		"service.yaml":       "apiVersion: v1\nkind: Service\nmetadata: {name: webhook-service}\n",
	} {
		if err := os.WriteFile(filepath.Join(theirs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := writeExtension(dir, theirs, updater)
	if err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(dir, "extensions", "runtime-extension-in-place-updater", "v1.0.0")
	for path, want := range map[string]string{
		config: "url: \"file://" + directory + "/runtime-extension-components.yaml\"",
		filepath.Join(directory, "metadata.yaml"): "{major: 1, minor: 0, contract: v1beta2}",
		filepath.Join(directory, "runtime-extension-components.yaml"): "name: in-place-updater-webhook-service\n  " +
			"namespace: in-place-updater-system",
	} {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %q, %v:\n%s", path, want, err, data)
		}
	}
}
