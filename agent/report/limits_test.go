package report

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schema returns the schema of status.agent.
func schema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := os.ReadFile("../../config/crd/bases/infrastructure.capstan.dev_capstanhosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties["agent"]
}

// TestLimitsAreThoseOfTheAPI compares the agent's limits with the API's.
func TestLimitsAreThoseOfTheAPI(t *testing.T) {
	agent := schema(t)
	at := func(path string) *apiextensionsv1.JSONSchemaProps {
		schema := agent
		for name := range strings.SplitSeq(path, ".") {
			schema = schema.Properties[name]
		}
		return &schema
	}
	for path, want := range map[string]int64{
		"version": VersionLimit, "operatingSystem": OperatingSystemLimit, "kernel": KernelLimit, "bootstrap.step": StepLimit,
		"bootstrap.message": MessageLimit, "handOver.message": MessageLimit, "processorModel": ModelLimit,
		"model": ModelLimit, "virtualization": VirtualizationLimit,
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

// TestLimitsOfHardwareAreThoseOfTheAPI compares the limits of hardware lists with the API's.
func TestLimitsOfHardwareAreThoseOfTheAPI(t *testing.T) {
	agent := schema(t)
	disks, addresses := agent.Properties["disks"], agent.Properties["addresses"]
	if name := disks.Items.Schema.Properties["name"]; *disks.MaxItems != DisksLimit || *name.MaxLength != DiskNameLimit {
		t.Errorf("the API takes %d disks with %d characters", *disks.MaxItems, *name.MaxLength)
	}
	if *addresses.MaxItems != AddressesLimit {
		t.Errorf("the API takes %d addresses", *addresses.MaxItems)
	}
	fits := regexp.MustCompile(agent.Properties["model"].Pattern)
	for name, want := range map[string]string{
		"Dell Inc. PowerEdge R640":               "Dell Inc. PowerEdge R640",
		"Intel(R) Xeon(R) CPU  E5-2680 v4 @ 2.4": "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.4",
		"\x1b[2J\"Größe\"\n":                     "2J Gr e",
		strings.Repeat("x", 63) + " y":           strings.Repeat("x", 63),
		" ":                                      "",
	} {
		if got := Name(name); got != want || got != "" && !fits.MatchString(got) {
			t.Errorf("%q becomes %q", name, got)
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
		"no leftovers":    {},
		"one leftover":    {all: many[:1], n: 1, last: "path /0"},
		"as many as fit":  {all: many[:11], n: 11, last: "path /10"},
		"more than fit":   {all: many, n: 11, last: "and 30 more, see the log of the cleaning on the host"},
		"a long leftover": {all: []string{strings.Repeat("x", 500)}, n: 1, last: strings.Repeat("x", 256)},
		"a cut character": {all: []string{strings.Repeat("x", 255) + "ü"}, n: 1, last: strings.Repeat("x", 255)},
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
