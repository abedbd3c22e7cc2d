package clusterctl

import (
	"io"
	"slices"
	"strings"
	"testing"

	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

func TestFrom(t *testing.T) {
	configMap := upstream.ConfigMapSourceOptions{Name: "map"}
	elsewhere := upstream.ConfigMapSourceOptions{Name: "map", Namespace: "red"}
	aws := upstream.ProviderRepositorySourceOptions{InfrastructureProvider: "aws"}
	for name, c := range map[string]struct {
		source Source
		at     string // kubeconfig
		want   string
	}{
		"a file":                                {Source{From: "a.yaml"}, "k", "URL a.yaml"},
		"a ConfigMap":                           {Source{ConfigMap: configMap}, "k", "ConfigMap blue/map"},
		"a ConfigMap of another namespace":      {Source{ConfigMap: elsewhere}, "k", "ConfigMap red/map"},
		"a provider":                            {Source{Repository: aws}, "", "provider aws"},
		"the installed provider":                {Source{}, "k", "provider "},
		"Capstan, without a management cluster": {Source{}, "", "provider capstan"},
	} {
		t.Run(name, func(t *testing.T) {
			o := upstream.GetClusterTemplateOptions{}
			(&Client{Kubeconfig: upstream.Kubeconfig{Path: c.at}}).from(&o, "blue", c.source)
			var got string
			switch {
			case o.URLSource != nil:
				got = "URL " + o.URLSource.URL
			case o.ConfigMapSource != nil:
				got = "ConfigMap " + o.ConfigMapSource.Namespace + "/" + o.ConfigMapSource.Name
			case o.ProviderRepositorySource != nil:
				got = "provider " + o.ProviderRepositorySource.InfrastructureProvider
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// variables is a template with variables.
type variables struct {
	upstream.Template
	all map[string]*string
}

func (v variables) VariableMap() map[string]*string { return v.all }
func (v variables) Variables() []string             { return []string{"b", "a", "c"} }

func TestVariables(t *testing.T) {
	one, empty := "1", ""
	got := Variables(variables{all: map[string]*string{"a": &one, "b": nil, "c": &empty}})
	want := []Variable{{"a", &one}, {"b", nil}, {"c", &empty}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestReadToConvert(t *testing.T) {
	if data, err := ReadToConvert(strings.NewReader("a: b")); err != nil || string(data) != "a: b" {
		t.Errorf("read %q, %v", data, err)
	}
	if _, err := ReadToConvert(endless{}); hint.Of(err) == "" {
		t.Errorf("an input without an end: %v", err)
	}
	if _, err := ReadToConvert(io.MultiReader(strings.NewReader("a"), unreadable{})); err == nil {
		t.Error("a failed read was taken for the end of the input")
	}
}

// endless is a reader without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// unreadable is a reader that fails.
type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestMayConvertTo(t *testing.T) {
	for _, version := range upstream.SupportedTargetVersions {
		if err := MayConvertTo(version); err != nil {
			t.Error(err)
		}
	}
	if err := MayConvertTo("v1alpha1"); hint.Of(err) == "" {
		t.Errorf("a version that is not supported: %v", err)
	}
}
