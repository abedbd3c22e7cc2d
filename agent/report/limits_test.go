package report

import (
	"fmt"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestLimitsAreThoseOfTheAPI compares what the agent cuts with what the API takes.
func TestLimitsAreThoseOfTheAPI(t *testing.T) {
	data, err := os.ReadFile("../../config/crd/bases/infrastructure.capstan.dev_capstanhosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	agent := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["agent"]
	at := func(path string) *apiextensionsv1.JSONSchemaProps {
		schema := agent
		for name := range strings.SplitSeq(path, ".") {
			schema = schema.Properties[name]
		}
		return &schema
	}
	for path, want := range map[string]int64{
		"version": VersionLimit, "operatingSystem": OperatingSystemLimit, "kernel": KernelLimit, "bootstrap.step": StepLimit,
		"bootstrap.message": MessageLimit, "handOver.message": MessageLimit,
	} {
		if got := at(path).MaxLength; got == nil || *got != want {
			t.Errorf("the API takes %v characters of %s, the agent sends %d", got, path, want)
		}
	}
	for path, want := range map[string]struct{ items, length int64 }{
		"cleaning.leftovers": {mostLeftovers, longestLeftover}, "kubernetesVersions": {mostVersions, VersionLimit},
	} {
		if got := at(path); *got.MaxItems != want.items || *got.Items.Schema.MaxLength != want.length {
			t.Errorf("the API takes %d of %s with %d characters, the agent sends %+v", *got.MaxItems, path,
				*got.Items.Schema.MaxLength, want)
		}
	}
}

func TestLeftovers(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprint("path /", i))
	}
	for name, c := range map[string]struct {
		all  []string
		n    int
		last string
	}{
		"none":             {},
		"one":              {all: many[:1], n: 1, last: "path /0"},
		"as many as fit":   {all: many[:11], n: 11, last: "path /10"},
		"more than fit":    {all: many, n: 11, last: "and 30 more, see the log of the cleaning on the host"},
		"a long one":       {all: []string{strings.Repeat("x", 500)}, n: 1, last: strings.Repeat("x", 256)},
		"half a character": {all: []string{strings.Repeat("x", 255) + "ü"}, n: 1, last: strings.Repeat("x", 255)},
	} {
		t.Run(name, func(t *testing.T) {
			got := Leftovers(c.all)
			if len(got) != c.n || c.n > 0 && got[c.n-1] != c.last {
				t.Errorf("got %q", got)
			}
		})
	}
	if many[11] != "path /11" {
		t.Error("the caller's list has changed")
	}
}

func TestVersions(t *testing.T) {
	many := make([]string, 50)
	many[0] = strings.Repeat("v", 65)
	if got := Versions(many); len(got) != 32 || got[0] != "" {
		t.Errorf("got %q", got)
	}
}
