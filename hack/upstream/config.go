package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

// configuration holds the parts of upstream's e2e configuration that are copied or written.
type configuration struct {
	ManagementClusterName string              `json:"managementClusterName"`
	Providers             []provider          `json:"providers"`
	Variables             map[string]string   `json:"variables"`
	Intervals             map[string][]string `json:"intervals"`
}

type provider struct {
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Versions []providerVersion `json:"versions"`
}

type providerVersion struct {
	Name     string         `json:"name"`
	Value    string         `json:"value"`
	Type     string         `json:"type"`
	Contract string         `json:"contract"`
	Files    []providerFile `json:"files"`
}

type providerFile struct {
	SourcePath string `json:"sourcePath"`
	TargetName string `json:"targetName"`
}

// installed is a provider in the plane.
type installed struct {
	Name, Type, Version string
}

// key identifies the provider in the same way as clusterctl's inventory.
func (i installed) key() string { return i.Type + " " + i.Name }

// required are the providers that the framework requires in a configuration.
var required = []string{
	"CoreProvider cluster-api", "BootstrapProvider kubeadm", "ControlPlaneProvider kubeadm",
	"InfrastructureProvider capstan",
}

// writeConfig writes the configuration of the suite, and the files that it refers to, into a directory. Variables and
// intervals are upstream's, except for the given variables.
func writeConfig(dir string, upstream []byte, providers []installed, templates map[string][]byte,
	variables map[string]string,
) (path string, err error) {
	var config configuration
	if err := yaml.Unmarshal(upstream, &config); err != nil {
		return "", fmt.Errorf("reading upstream's configuration: %w", err)
	}
	if len(config.Intervals) == 0 {
		return "", errors.New("upstream's configuration has no intervals")
	}
	config.ManagementClusterName, config.Providers = "bootstrap", nil
	maps.Copy(config.Variables, variables)
	write := func(name string, data []byte) (string, error) {
		path := filepath.Join(dir, name)
		return path, os.WriteFile(path, data, 0o600)
	}
	// The plane already has all providers, so the specs take only templates from the repository, never components.
	components, err := write("components.yaml", []byte("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: unused\n"))
	if err != nil {
		return "", err
	}
	for _, key := range required {
		i := slices.IndexFunc(providers, func(p installed) bool { return p.key() == key })
		if i < 0 {
			return "", fmt.Errorf("the plane has no %s", key)
		}
		p := providers[i]
		text, err := metadata(p.Version)
		if err != nil {
			return "", err
		}
		about, err := write(p.Type+".metadata.yaml", text)
		if err != nil {
			return "", err
		}
		release := providerVersion{
			Name: p.Version, Value: components, Type: "url", Contract: "v1beta2",
			Files: []providerFile{{SourcePath: about, TargetName: "metadata.yaml"}},
		}
		if p.Name == "capstan" {
			for _, name := range slices.Sorted(maps.Keys(templates)) {
				source, err := write(name, templates[name])
				if err != nil {
					return "", err
				}
				release.Files = append(release.Files, providerFile{SourcePath: source, TargetName: name})
			}
		}
		config.Providers = append(config.Providers,
			provider{Name: p.Name, Type: p.Type, Versions: []providerVersion{release}})
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return "", err
	}
	return write("e2e.yaml", data)
}

// metadata returns clusterctl's metadata of a provider with one release. The metadata names no newer series,
// because clusterctl would look there for the latest release.
func metadata(text string) ([]byte, error) {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil, fmt.Errorf("version of a provider: %w", err)
	}
	return fmt.Appendf(nil, "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries:\n"+
		"- {major: %d, minor: %d, contract: v1beta2}\n", v.Major(), v.Minor()), nil
}
