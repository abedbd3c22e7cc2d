package clusterctl

import (
	"errors"
	"fmt"
	"slices"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// flags are clusterctl's flags for providers.
var flags = map[clusterctlv1.ProviderType]struct{ name, short string }{
	clusterctlv1.CoreProviderType:             {"core", ""},
	clusterctlv1.BootstrapProviderType:        {"bootstrap", "b"},
	clusterctlv1.ControlPlaneProviderType:     {"control-plane", "c"},
	clusterctlv1.InfrastructureProviderType:   {"infrastructure", "i"},
	clusterctlv1.IPAMProviderType:             {"ipam", ""},
	clusterctlv1.RuntimeExtensionProviderType: {"runtime-extension", ""},
	clusterctlv1.AddonProviderType:            {"addon", ""},
}

// Flag returns clusterctl's flag for providers of a type. The short form may be empty.
func Flag(kind clusterctlv1.ProviderType) (name, short string) {
	return flags[kind].name, flags[kind].short
}

// Check fails if no management cluster can satisfy the request.
func (r Request) Check() error {
	if n := len(r[clusterctlv1.CoreProviderType]); n > 1 {
		return fmt.Errorf("--core names %d providers: a management cluster has one", n)
	}
	return nil
}

// Only returns the single provider of a request.
func (r Request) Only() (kind clusterctlv1.ProviderType, ref string, err error) {
	n := 0
	for k, refs := range r {
		for _, each := range refs {
			kind, ref = k, each
			n++
		}
	}
	if n != 1 {
		return "", "", hint.Errorf("for example: --infrastructure capstan", "%d providers are named, want one", n)
	}
	return kind, ref, nil
}

// Names returns the names of the providers without their versions, sorted.
func (r Request) Names() []string {
	var names []string
	for _, refs := range r {
		for _, ref := range refs {
			name, _ := parse(ref)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// core returns the core provider of a request, which upstream's options take separately.
func (r Request) core() string {
	if refs := r[clusterctlv1.CoreProviderType]; len(refs) > 0 {
		return refs[0]
	}
	return ""
}

// install returns upstream's options to install the requested providers.
func (r Request) install(kubeconfig upstream.Kubeconfig) upstream.InitOptions {
	return upstream.InitOptions{
		Kubeconfig: kubeconfig, CoreProvider: r.core(),
		BootstrapProviders:        r[clusterctlv1.BootstrapProviderType],
		ControlPlaneProviders:     r[clusterctlv1.ControlPlaneProviderType],
		InfrastructureProviders:   r[clusterctlv1.InfrastructureProviderType],
		IPAMProviders:             r[clusterctlv1.IPAMProviderType],
		RuntimeExtensionProviders: r[clusterctlv1.RuntimeExtensionProviderType],
		AddonProviders:            r[clusterctlv1.AddonProviderType],
	}
}

// upgrade returns upstream's options to upgrade the requested providers.
func (r Request) upgrade(kubeconfig upstream.Kubeconfig) upstream.ApplyUpgradeOptions {
	return upstream.ApplyUpgradeOptions{
		Kubeconfig: kubeconfig, CoreProvider: r.core(),
		BootstrapProviders:        r[clusterctlv1.BootstrapProviderType],
		ControlPlaneProviders:     r[clusterctlv1.ControlPlaneProviderType],
		InfrastructureProviders:   r[clusterctlv1.InfrastructureProviderType],
		IPAMProviders:             r[clusterctlv1.IPAMProviderType],
		RuntimeExtensionProviders: r[clusterctlv1.RuntimeExtensionProviderType],
		AddonProviders:            r[clusterctlv1.AddonProviderType],
	}
}

// remove returns upstream's options to remove the requested providers.
func (r Request) remove(kubeconfig upstream.Kubeconfig) upstream.DeleteOptions {
	return upstream.DeleteOptions{
		Kubeconfig: kubeconfig, CoreProvider: r.core(),
		BootstrapProviders:        r[clusterctlv1.BootstrapProviderType],
		ControlPlaneProviders:     r[clusterctlv1.ControlPlaneProviderType],
		InfrastructureProviders:   r[clusterctlv1.InfrastructureProviderType],
		IPAMProviders:             r[clusterctlv1.IPAMProviderType],
		RuntimeExtensionProviders: r[clusterctlv1.RuntimeExtensionProviderType],
		AddonProviders:            r[clusterctlv1.AddonProviderType],
	}
}

// withUpgrade adds the command that changes an installed provider's program to an [InstalledError].
func withUpgrade(err error) error {
	var installed *InstalledError
	if !errors.As(err, &installed) {
		return err
	}
	p := installed.Provider
	flag, _ := Flag(p.Type)
	return hint.Errorf(fmt.Sprintf("capstan clusterctl upgrade apply --%s %s:%s --provider-binary %s", flag, p.Name,
		installed.Version, Quote(p.Label()+"="+installed.Binary)), "%w", err)
}
