package preflight

import "testing"

// TestThis examines the computer that the test runs on: every check must reach a verdict there.
func TestThis(t *testing.T) {
	for _, f := range Run(This(), Role{}) {
		if f.Verdict == "" || f.Found == "" {
			t.Errorf("got %+v", f)
		}
		if f.Check == "kernel" && f.Verdict == Unknown || f.Check == "disk" && f.Verdict == Unknown {
			t.Errorf("the kernel was not asked: %+v", f)
		}
	}
}
