package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/rules"
)

// Where Cluster API's hooks are. Since v1.14 its types are in a module of their own.
const (
	coreModule  = "sigs.k8s.io/cluster-api"
	corePackage = "api/runtime/hooks/v1alpha1"
)

// Upgrade is what an upgrade of Cluster API means for extensions.
type Upgrade struct {
	// Impacts on the handlers.
	Impacts []rules.Impact
	// Missing lists packages of either release that could not be read: changes in their types go unnoticed.
	Missing []string
}

// Broken counts the handlers that break.
func (u *Upgrade) Broken() int {
	n := 0
	for _, i := range u.Impacts {
		if i.Verdict == rules.Break {
			n++
		}
	}
	return n
}

// Preflight compares two releases of Cluster API, such as v1.12.0 and v1.13.4, and returns what the upgrade means for
// the handlers of installed extensions.
func Preflight(ctx context.Context, installed []runtimev1.ExtensionConfig, from, to string) (*Upgrade, error) {
	before, err := read(ctx, coreModule+"@"+from, corePackage)
	if err != nil {
		return nil, err
	}
	planned, err := read(ctx, coreModule+"@"+to, corePackage)
	if err != nil {
		return nil, err
	}
	releases := rules.Releases{Now: minorOf(to), Day: time.Now()}
	return &Upgrade{
		Impacts: rules.Preflight(installed, before.document, planned.document, releases),
		Missing: append(before.missing, planned.missing...),
	}, nil
}

// minorOf returns v1.13 for v1.13.4.
func minorOf(version string) hook.Release {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil {
		return ""
	}
	return hook.Release(fmt.Sprintf("v%d.%d", major, minor))
}

// NoExtensionsError reports a file without ExtensionConfigs.
type NoExtensionsError struct{ Source string }

// Error names the file.
func (e *NoExtensionsError) Error() string { return e.Source + " holds no ExtensionConfigs" }

// Hint says how to write the file.
func (e *NoExtensionsError) Hint() string {
	return "write it with: kubectl get extensionconfigs -o yaml"
}

// ParseExtensions reads ExtensionConfigs, single ones or in lists, from YAML or JSON. source is where the data comes
// from, for errors. If there are none, the error is a [*NoExtensionsError].
func ParseExtensions(in io.Reader, source string) ([]runtimev1.ExtensionConfig, error) {
	var all []runtimev1.ExtensionConfig
	decoder := yaml.NewYAMLOrJSONDecoder(in, 4096)
	for {
		// A list has items, a single ExtensionConfig has a spec.
		var document struct {
			runtimev1.ExtensionConfig `json:",inline"`
			Items                     []runtimev1.ExtensionConfig `json:"items"`
		}
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading ExtensionConfigs in %s: %w", source, err)
		}
		if document.Kind == "ExtensionConfig" {
			all = append(all, document.ExtensionConfig)
		}
		all = append(all, document.Items...)
	}
	if len(all) == 0 {
		return nil, &NoExtensionsError{source}
	}
	return all, nil
}
