package enroll

import (
	"testing"

	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/config"
)

// TestPlaneIsForThosePoliciesThatAskIt: a host without a usable key bootstraps from its own bundles or packages.
func TestPlaneIsForThosePoliciesThatAskIt(t *testing.T) {
	for policy, needsKey := range map[bundle.Policy]bool{
		bundle.FromAnywhere: true, bundle.FromPlane: true, bundle.FromDirectory: false, bundle.FromPackages: false,
	} {
		c := config.Config{Enrolment: "https://192.0.2.1:7444", StateDir: t.TempDir(), Bundles: string(policy)}
		plane, err := Plane(c)
		if plane != nil || (err != nil) != needsKey {
			t.Errorf("policy %q without a key: %v, %v", policy, plane, err)
		}
	}
	if plane, err := Plane(config.Config{StateDir: t.TempDir()}); plane != nil || err != nil {
		t.Errorf("without a plane: %v, %v", plane, err)
	}
}
