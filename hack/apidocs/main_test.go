package main

import (
	"os"
	"strings"
	"testing"
)

const file = "../../docs/reference/api.md"

func TestReferenceIsUpToDate(t *testing.T) {
	definitions, err := read("../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != reference(definitions) {
		t.Errorf("%s does not match the definitions: run make generate", file)
	}
}

func TestReferenceSaysWhatAReaderNeeds(t *testing.T) {
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"a rule": "- spec.providerID can't be changed: it names the instance; delete the Machine to get another " +
			"one",
		"limits":           "| `spec.providerID` | string, 1 to 512 characters |",
		"a default":        "Default: `\"External\"`.",
		"a required field": "| `spec.zone` | string, 1 to 63 characters, required |",
		"a short name": "| [CapstanMachine](#capstanmachine) | `cpm` | v1beta2, v1beta1 | v1beta1 by v1beta1, v1beta2 " +
			"by v1beta2 |",
		"a list with keys": "list of object, each with its own type, at most 32 items",
		"a column":         "Host (claimed host)",
	} {
		if !strings.Contains(string(have), text) {
			t.Errorf("the reference lacks %s: %s", what, text)
		}
	}
}
