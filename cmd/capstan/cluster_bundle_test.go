package main

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/local/nodebundle"
)

func TestWithoutBundle(t *testing.T) {
	all := []nodebundle.Bundle{{Kubernetes: "v1.36.3", Architecture: "arm64"}}
	if got := withoutBundle(all, "v1.36.3"); got != "" {
		t.Errorf("a warning although the plane has a bundle of the version: %s", got)
	}
	if got := withoutBundle(all, "v1.35.4"); !strings.Contains(got, "no bundle of Kubernetes v1.35.4") {
		t.Errorf("the plane has a bundle of another version: the warning is %q", got)
	}
	if withoutBundle(nil, "v1.36.3") == "" {
		t.Error("no warning although the plane has no bundle")
	}
}
