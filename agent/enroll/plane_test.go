package enroll

import (
	"testing"

	"github.com/capstan-dev/capstan/agent/config"
)

// TestPlaneNeedsAKey: only a host that uses the plane needs its key.
func TestPlaneNeedsAKey(t *testing.T) {
	c := config.Config{Enrolment: "https://192.0.2.1:7444", StateDir: t.TempDir()}
	if plane, err := Plane(c); plane != nil || err == nil {
		t.Errorf("without a key: %v, %v", plane, err)
	}
	if plane, err := Plane(config.Config{StateDir: t.TempDir()}); plane != nil || err != nil {
		t.Errorf("without a plane: %v, %v", plane, err)
	}
}
