package inside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/local"
)

func TestNewServerRefuses(t *testing.T) {
	bin := t.TempDir()
	refuses := func(name string, o Options, want string) {
		t.Helper()
		if _, err := newServer(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
	refuses("no directories", Options{}, "must be absolute paths")
	refuses("a relative path", Options{Place: local.Place{Home: "home", Binaries: bin}}, "must be absolute paths")
	good := Options{Place: local.Place{Home: t.TempDir(), Binaries: bin}}
	refuses("no bundle", good, "no Kubernetes bundle is built")

	write := func(name string) {
		t.Helper()
		path := filepath.Join(bin, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("bundles/v1.36.3/capstan-kube")
	refuses("no extension", good, "capstan-extension is missing")
	write("capstan-extension")
	s, err := newServer(good)
	if err != nil {
		t.Fatal(err)
	}
	o := s.plane(nil, nil)
	if o.Ports.APIServer != local.PlanePort || o.Bind != "0.0.0.0" || o.Dir != filepath.Join(good.Home, "plane") {
		t.Errorf("the plane listens on %s:%d, and is in %s", o.Bind, o.Ports.APIServer, o.Dir)
	}
}
