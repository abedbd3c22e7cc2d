package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/test/images"
)

// conformanceFile is the file of the Kubernetes module that lists its conformance tests.
const conformanceFile = "test/conformance/testdata/conformance.yaml"

// listed returns the path of a copy of that file, for users without Go.
func (o *options) listed() string { return o.bin("conformance.yaml") }

// keepList makes this copy of the file.
func (o *options) keepList(ctx context.Context) error {
	dir, err := images.Module(ctx, o.root, "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(dir, conformanceFile))
	if err != nil {
		return err
	}
	return os.WriteFile(o.listed(), data, 0o644)
}

// specs returns the names of all conformance tests.
func (o *options) specs() ([]string, error) {
	text, err := os.ReadFile(o.listed())
	if err != nil {
		return nil, err
	}
	return readSpecs(text)
}

// readSpecs reads the module's list. Pure.
func readSpecs(text []byte) ([]string, error) {
	var list []struct {
		Codename string `json:"codename"`
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the list of conformance tests: %w", err)
	}
	var all []string
	for _, s := range list {
		if s.Codename == "" {
			return nil, fmt.Errorf("a test of the list of conformance tests has no name")
		}
		all = append(all, s.Codename)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// choose returns the requested specs.
func (o *options) choose(all []string) ([]string, error) {
	if o.list != "" {
		text, err := os.ReadFile(o.list)
		if err != nil {
			return nil, err
		}
		return fromList(all, string(text))
	}
	if len(o.names) == 0 {
		return all, nil
	}
	var chosen []string
	for _, pattern := range o.names {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, err
		}
		before := len(chosen)
		for _, name := range all {
			if re.MatchString(name) {
				chosen = append(chosen, name)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("no conformance test matches %s", pattern)
		}
	}
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}

// fromList returns the specs of a list in its order. The list may have comments. Pure.
func fromList(all []string, text string) ([]string, error) {
	var chosen []string
	for line := range strings.Lines(text) {
		name := strings.TrimSpace(line)
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("there is no conformance test %q", name)
		}
		if !slices.Contains(chosen, name) {
			chosen = append(chosen, name)
		}
	}
	return chosen, nil
}

// mustBeAlone reports whether a spec must not run at the same time as others. Pure.
func mustBeAlone(name string) bool {
	return strings.Contains(name, "[Serial]") || strings.Contains(name, "[Disruptive]")
}
