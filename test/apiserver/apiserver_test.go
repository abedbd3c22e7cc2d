package apiserver_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// TestNothingIsLeft looks for files of servers that were stopped or that could not be started.
func TestNothingIsLeft(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	for name, c := range map[string]struct {
		options apiserver.Options
		fails   bool
	}{
		"a server":                     {},
		"a server that does not start": {apiserver.Options{AuditLog: "/dev/null/log"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			server, err := apiserver.Start(c.options)
			if failed := err != nil; failed != c.fails {
				t.Errorf("the start returned %v, want an error: %v", err, c.fails)
			}
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("files are left behind: %v, %v", left, err)
			}
		})
	}
}
