package clusterctl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
)

func object(apiVersion, kind, name string) unstructured.Unstructured {
	o := unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace("ns")
	o.SetName(name)
	return o
}

func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		objects []unstructured.Unstructured
		want    []string // parts of the message; empty: the plane can run the provider
	}{
		"definitions and roles": {
			[]unstructured.Unstructured{object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a"),
				object("rbac.authorization.k8s.io/v1", "ClusterRole", "b")}, nil,
		},
		"a controller in a Pod": {
			[]unstructured.Unstructured{object("v1", "Namespace", "a"), object("apps/v1", "Deployment", "manager")},
			[]string{"addon-x", "Deployment ns/manager", "no containers"},
		},
		"everything that runs": {
			[]unstructured.Unstructured{object("batch/v1", "CronJob", "j"), object("apps/v1", "DaemonSet", "d")},
			[]string{"CronJob ns/j, DaemonSet ns/d"},
		},
		"a certificate": {[]unstructured.Unstructured{object("cert-manager.io/v1", "Certificate", "c")},
			[]string{"cert-manager for its Certificate ns/c"}},
		"no objects": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := fit("addon-x", c.objects)
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in %q", part, err)
				}
			}
		})
	}
}

func TestWhatIsAPartOfThePlane(t *testing.T) {
	plane := &Client{Installed: []Provider{
		{Name: "kubeadm", Type: clusterctlv1.BootstrapProviderType, Version: "v1.2.3", Embedded: true},
		{Name: "capstan", Type: clusterctlv1.InfrastructureProviderType, Version: "v0.1.0", Embedded: true},
	}}
	infrastructure := func(ref string) Request {
		return Request{clusterctlv1.InfrastructureProviderType: {ref}}
	}
	for name, c := range map[string]struct {
		request  Request
		install  bool // whether ToInstall accepts the request
		conflict bool
	}{
		"the name of a built-in provider": {infrastructure("capstan"), true, true},
		"the name in upper case":          {infrastructure("Capstan"), true, true},
		"the version that the plane runs": {infrastructure("capstan:v0.1.0"), true, true},
		"another version":                 {infrastructure("capstan:v0.2.0"), false, true},
		"the name with a namespace":       {infrastructure("capstan-system/capstan:v0.1.0"), true, true},
		"two built-in providers": {
			Request{
				clusterctlv1.InfrastructureProviderType: {"capstan"}, clusterctlv1.BootstrapProviderType: {"kubeadm:v1.2.4"},
			}, false, true,
		},
		"no provider": {Request{}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			left, err := plane.ToInstall(t.Context(), c.request, "")
			if (err == nil) != c.install || len(left) > 0 {
				t.Errorf("ToInstall leaves %v to install, and returned %v", left, err)
			}
			if err != nil && !errors.Is(err, ErrPartOfThePlane) {
				t.Errorf("installing: %v", err)
			}
			if err := plane.MayChange(t.Context(), c.request); errors.Is(err, ErrPartOfThePlane) != c.conflict {
				t.Errorf("changing: %v", err)
			}
			if err := plane.MayDelete(c.request); errors.Is(err, ErrPartOfThePlane) != c.conflict {
				t.Errorf("deleting: %v", err)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"v0.1.0": "v0.1.0", "v1.2.3-rc.1": "v1.2.3-rc.1", "v0.1.0-5-gabcdef0": "v0.1.0-5-gabcdef0",
		"dev": development, "839c54c": development, "1.2.3": development, "v1.2": development, "": development,
	} {
		if got := Version(text); got != want {
			t.Errorf("%q is %s in the inventory, want %s", text, got, want)
		}
	}
}

// TestOwnRepositories: a plane has its providers at its versions; elsewhere there are only Capstan's templates.
func TestOwnRepositories(t *testing.T) {
	core := identity{"cluster-api", clusterctlv1.CoreProviderType}
	const elsewhere = "providers: [{name: capstan, type: InfrastructureProvider, url: " +
		"\"file:///nowhere/infrastructure-capstan/v0.4.0/infrastructure-components.yaml\"}]"
	for name, c := range map[string]struct {
		installed []Provider
		config    string
		want      map[identity]string
	}{
		"no management cluster": {want: map[identity]string{capstan: "v0.3.0"}},
		"no management cluster, and a repository in the configuration": {config: elsewhere},
		"a plane takes precedence over the configuration": {
			[]Provider{{Name: "capstan", Type: capstan.kind, Version: "v0.2.0", Embedded: true}}, elsewhere,
			map[identity]string{capstan: "v0.2.0"},
		},
		"a plane of an older version": {
			[]Provider{{Name: "cluster-api", Type: core.kind, Version: "v1.14.2", Embedded: true},
				{Name: "capstan", Type: capstan.kind, Version: "v0.2.0", Embedded: true}}, "",
			map[identity]string{core: "v1.14.2", capstan: "v0.2.0"},
		},
		"a cluster that is not a plane": {[]Provider{{Name: "capstan", Type: capstan.kind, Version: "v0.2.0"}}, "",
			map[identity]string{capstan: "v0.3.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := newOwnRepositories(c.installed, settings(t, c.config), "v0.3.0")
			if err != nil || len(own) != len(c.want) {
				t.Fatalf("%d repositories, %v", len(own), err)
			}
			for id, version := range c.want {
				if text, err := own[id].GetFile(t.Context(), version, "metadata.yaml"); err != nil ||
					!strings.Contains(string(text), "v1beta2") {
					t.Errorf("%s at %s: %s %v", id.name, version, text, err)
				}
			}
			if own[capstan] == nil {
				return
			}
			if _, err := own[capstan].GetFile(t.Context(), c.want[capstan], "cluster-template.yaml"); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := newOwnRepositories([]Provider{{Name: "capstan", Type: capstan.kind, Version: "839c54c", Embedded: true}},
		settings(t, ""), ""); err == nil || !strings.Contains(err.Error(), "839c54c") {
		t.Errorf("an invalid version: %v", err)
	}
}

// settings returns a clusterctl configuration with this text.
func settings(t *testing.T, text string) config.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.New(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A program for a built-in provider would be ignored, so it is refused.
func TestNoProgramForAPartOfThePlane(t *testing.T) {
	plane := &Client{
		Installed: []Provider{
			{Name: "capstan", Type: clusterctlv1.InfrastructureProviderType, Version: "v0.1.0", Embedded: true},
		},
		binaries: map[string]string{"infrastructure-capstan": "/opt/capstan-manager"},
	}
	_, err := plane.ToInstall(t.Context(), Request{clusterctlv1.InfrastructureProviderType: {"capstan"}}, "")
	if err == nil || !strings.Contains(err.Error(), "leave out its --provider-binary") {
		t.Errorf("error %v", err)
	}
}
