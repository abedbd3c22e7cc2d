package main

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/local/nodebundle"
)

func TestWithoutBundle(t *testing.T) {
	all := []nodebundle.Bundle{{Kubernetes: "v1.36.3", Architecture: "arm64"}}
	if got := withoutBundle(all, "v1.36.3"); got != "" {
		t.Errorf("the plane has it: %s", got)
	}
	if got := withoutBundle(all, "v1.35.4"); !strings.Contains(got, "no bundle of Kubernetes v1.35.4") {
		t.Errorf("the plane has another one: %q", got)
	}
	if withoutBundle(nil, "v1.36.3") == "" {
		t.Error("the plane has none")
	}
}
