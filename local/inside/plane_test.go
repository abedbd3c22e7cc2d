package inside

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/gates"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/plane/pki"
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
	refuses("a feature gate that does not exist", Options{Place: good.Place, Gates: gates.Set{"Nonsense": true}},
		`there is no feature gate "Nonsense"`)
	o := s.plane(nil, nil)
	if o.Ports.APIServer != local.PlanePort || o.Bind != "0.0.0.0" || o.Dir != filepath.Join(good.Home, "plane") {
		t.Errorf("the plane listens on %s:%d, and its directory is %s", o.Bind, o.Ports.APIServer, o.Dir)
	}
}

// TestAClosedGateLeavesOutWhatItRefuses: the plane's initial objects include none that the API server would reject.
func TestAClosedGateLeavesOutWhatItRefuses(t *testing.T) {
	dir := t.TempDir() // the plane's directory, with its keys
	keys, err := pki.Ensure(pki.Directory{Path: filepath.Join(dir, "pki")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	info := plane.Info{Dir: dir, PKI: keys}
	for name, c := range map[string]struct {
		changes gates.Set
		want    []string // the kind of each object
		not     string
		process bool
	}{
		"all gates are open": {nil, []string{"kind: ClusterClass", "kind: ExtensionConfig"},
			"kind: Nonsense", true},
		"the gate of runtime extensions is closed (RC-02)": {
			gates.Set{"RuntimeSDK": false}, []string{"kind: ClusterClass"},
			"kind: ExtensionConfig", false},
		"the gate of ClusterClasses is closed": {gates.Set{"ClusterTopology": false}, []string{"kind: ExtensionConfig"},
			"kind: ClusterClass", true},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := gates.Plane().With(c.changes)
			if err != nil {
				t.Fatal(err)
			}
			s := &server{Options: Options{Place: local.Place{Home: t.TempDir()}}, home: home.Dir(t.TempDir()), gates: all}
			documents, err := s.seed(info)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(documents[0]), "name: cluster-info") {
				t.Error("the first object is not the ConfigMap cluster-info")
			}
			if !strings.Contains(string(documents[0]), "server: https://10.231.0.1:7443") {
				t.Errorf("the ConfigMap cluster-info does not have the address for machines:\n%s", documents[0])
			}
			text := string(bytes.Join(documents, []byte("\n---\n")))
			for _, kind := range c.want {
				if !strings.Contains(text, kind) {
					t.Errorf("the initial objects lack %q", kind)
				}
			}
			if strings.Contains(text, c.not) {
				t.Errorf("the initial objects include %q", c.not)
			}
			if runs := len(s.plane(nil, nil).Children(info)) > 0; runs != c.process {
				t.Errorf("does the extension run? got %t", runs)
			}
		})
	}
}

// TestTheExtensionReachesOtherComputers: the extension leaves the dock through the same proxy as this process.
func TestTheExtensionReachesOtherComputers(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("NO_PROXY", "localhost")
	info := plane.Info{PKI: &pki.Plane{}}
	env := extensionProcess("capstan-extension", info).Env
	for _, want := range []string{"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=localhost"} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment %v lacks %s", env, want)
		}
	}
}
