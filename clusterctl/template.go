package clusterctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Source says where a cluster template comes from: the first field that is set, or else the repository of the installed
// infrastructure provider.
type Source struct {
	// From is a file or a URL, or - for standard input.
	From string
	// ConfigMap is a ConfigMap in the management cluster. Its namespace defaults to the cluster's.
	ConfigMap upstream.ConfigMapSourceOptions
	// Repository is the repository of a provider.
	Repository upstream.ProviderRepositorySourceOptions
}

// Generate renders a template to the YAML of a cluster. Namespace is the default namespace of the cluster and of the
// ConfigMap.
func (c *Client) Generate(
	ctx context.Context, namespace string, source Source, o upstream.GetClusterTemplateOptions,
) (upstream.Template, error) {
	o.Kubeconfig = c.Kubeconfig
	if o.TargetNamespace == "" {
		o.TargetNamespace = namespace
	}
	c.from(&o, namespace, source)
	return c.GetClusterTemplate(ctx, o)
}

// from sets the source of the options.
func (c *Client) from(o *upstream.GetClusterTemplateOptions, namespace string, source Source) {
	switch {
	case source.From != "":
		o.URLSource = &upstream.URLSourceOptions{URL: source.From}
	case source.ConfigMap.Name != "":
		if source.ConfigMap.Namespace == "" {
			source.ConfigMap.Namespace = namespace
		}
		o.ConfigMapSource = &source.ConfigMap
	default:
		if source.Repository.InfrastructureProvider == "" && c.Kubeconfig.Path == "" {
			source.Repository.InfrastructureProvider = c.Template()
		}
		o.ProviderRepositorySource = &source.Repository
	}
}

// Variable is a variable of a template.
type Variable struct {
	Name string
	// Default is used if no value is set. If it is nil, a value is required.
	Default *string
}

// Variables returns the variables of a template, sorted.
func Variables(template upstream.Template) []Variable {
	defaults := template.VariableMap()
	names := slices.Sorted(slices.Values(template.Variables()))
	all := make([]Variable, 0, len(names))
	for _, name := range names {
		all = append(all, Variable{name, defaults[name]})
	}
	return all
}

// Components reads the components of a provider.
func (c *Client) Components(
	ctx context.Context, kind clusterctlv1.ProviderType, ref string, o upstream.ComponentsOptions,
) (upstream.Components, error) {
	components, err := c.GenerateProvider(ctx, ref, kind, o)
	if err != nil {
		return nil, hint.Errorf("components are in the repository of a release, which --config names; "+
			"this binary contains only cluster templates", "reading the components of %s %s: %w", kind, ref, err)
	}
	return components, nil
}

// mostYAML limits the input of a conversion, in bytes.
const mostYAML = 64 << 20

// MayConvertTo fails if objects cannot be converted to a version.
func MayConvertTo(version string) error {
	if !slices.Contains(upstream.SupportedTargetVersions, version) {
		return hint.Errorf("use --to-version "+strings.Join(upstream.SupportedTargetVersions, " or "),
			"objects can't be converted to version %q", version)
	}
	return nil
}

// ReadToConvert reads the input of a conversion, at most 64 MiB.
func ReadToConvert(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, mostYAML+1))
	if err != nil {
		return nil, fmt.Errorf("reading the objects to convert: %w", err)
	}
	if len(data) > mostYAML {
		return nil, hint.Errorf("convert the objects in parts", "the objects to convert have more than %d MiB",
			mostYAML>>20)
	}
	return data, nil
}
