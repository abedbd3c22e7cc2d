//go:build linux

package plane

import (
	"slices"
	"strings"
	"testing"
)

func TestOptionsSayAllThatIsWrong(t *testing.T) {
	err := (&Options{Bind: "somewhere", Kube: "/does/not/exist"}).complete()
	if err == nil {
		t.Fatal("invalid options were accepted")
	}
	for _, want := range []string{"no directory", "/does/not/exist", "not an address", "no runtime client"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error %q does not contain %q", err, want)
		}
	}
}

func TestChildEnv(t *testing.T) {
	got := childEnv([]string{"ETCD_DATA_DIR=/elsewhere", "HOME=/root", "PATHS=x", "PATH=/bin", "GOGC=1"})
	if want := []string{"PATH=/bin", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("the environment of children is %v, want %v", got, want)
	}
}
