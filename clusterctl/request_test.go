package clusterctl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

const (
	coreType  = clusterctlv1.CoreProviderType
	infraType = clusterctlv1.InfrastructureProviderType
)

func TestEveryTypeHasAFlag(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range Types {
		name, _ := Flag(kind)
		if name == "" || seen[name] {
			t.Errorf("%s has the flag %q", kind, name)
		}
		seen[name] = true
	}
	if len(flags) != len(Types) {
		t.Errorf("%d flags for %d types", len(flags), len(Types))
	}
}

func TestRequest(t *testing.T) {
	for name, c := range map[string]struct {
		request Request
		only    string // empty: there is more than one
		names   []string
		fails   bool
	}{
		"nothing":            {Request{}, "", nil, false},
		"one":                {Request{infraType: {"docker:v1.0.0"}}, "docker:v1.0.0", []string{"docker"}, false},
		"one of two types":   {Request{infraType: {"a"}, coreType: {"b"}}, "", []string{"a", "b"}, false},
		"one name twice":     {Request{infraType: {"a:v1", "a:v2"}}, "", []string{"a"}, false},
		"two core providers": {Request{coreType: {"a", "b"}}, "", []string{"a", "b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ref, err := c.request.Only(); ref != c.only && err == nil || (err == nil) != (c.only != "") {
				t.Errorf("the only one is %q, %v", ref, err)
			}
			if got := c.request.Names(); !slices.Equal(got, c.names) {
				t.Errorf("the names are %q", got)
			}
			if err := c.request.Check(); (err != nil) != c.fails {
				t.Errorf("Check returned %v", err)
			}
		})
	}
}

// TestOptionsNameEveryProvider: upstream's options contain the requested providers of every type.
func TestOptionsNameEveryProvider(t *testing.T) {
	request := Request{}
	for _, kind := range Types {
		request[kind] = []string{"the " + string(kind)}
	}
	at := upstream.Kubeconfig{Path: "a"}
	install, upgrade, remove := request.install(at), request.upgrade(at), request.remove(at)
	for name, got := range map[string][]string{
		"install": slices.Concat([]string{install.CoreProvider}, install.BootstrapProviders,
			install.ControlPlaneProviders, install.InfrastructureProviders, install.IPAMProviders,
			install.RuntimeExtensionProviders, install.AddonProviders),
		"upgrade": slices.Concat([]string{upgrade.CoreProvider}, upgrade.BootstrapProviders,
			upgrade.ControlPlaneProviders, upgrade.InfrastructureProviders, upgrade.IPAMProviders,
			upgrade.RuntimeExtensionProviders, upgrade.AddonProviders),
		"remove": slices.Concat([]string{remove.CoreProvider}, remove.BootstrapProviders,
			remove.ControlPlaneProviders, remove.InfrastructureProviders, remove.IPAMProviders,
			remove.RuntimeExtensionProviders, remove.AddonProviders),
	} {
		var want []string
		for _, kind := range Types {
			want = append(want, "the "+string(kind))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if install.Kubeconfig != at || upgrade.Kubeconfig != at || remove.Kubeconfig != at {
		t.Error("the options are for another management cluster")
	}
}

func TestWithUpgrade(t *testing.T) {
	installed := &InstalledError{
		Provider: Provider{Name: "docker", Type: infraType, Version: "v1.0.0"},
		Version:  "v1.1.0", Binary: "/opt/my capd",
	}
	err := withUpgrade(fmt.Errorf("looking: %w", errors.Join(errors.New("another one"), installed)))
	want := "upgrade apply --infrastructure docker:v1.1.0 --provider-binary 'infrastructure-docker=/opt/my capd'"
	if got := hint.Of(err); !strings.HasSuffix(got, want) || !errors.Is(err, error(installed)) {
		t.Errorf("the advice is %q", got)
	}
	if err := withUpgrade(errors.New("no route")); hint.Of(err) != "" {
		t.Errorf("another error has the advice %q", hint.Of(err))
	}
}
