package release

import (
	"bytes"
	"os"
	"testing"
)

// TestPageIsUpToDate compares docs/flavors.md with the files that it tells about (CT-59, CT-67, CT-71, CT-80).
func TestPageIsUpToDate(t *testing.T) {
	want, err := Page("..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../docs/flavors.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/flavors.md is not what the templates say: run make generate and commit the result")
	}
}
