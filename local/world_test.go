package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
)

// dockBinary is a capstan-dock, built once.
var dockBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "capstan-local-bin-")
	if err == nil {
		dockBinary = filepath.Join(dir, "capstan-dock")
		build := exec.Command("go", "build", "-o", dockBinary, "github.com/capstan-dev/capstan/cmd/capstan-dock")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building capstan-dock:", err)
		os.Exit(1)
	}
	code := m.Run()
	if left := leftOf(dir); left != "" {
		fmt.Fprintln(os.Stderr, "left behind:", left)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// leftOf waits until no process mentions a path. It returns the command lines of those that still do after 10 seconds,
// because a process that has given up its lock may need a moment to exit.
func leftOf(path string) string {
	left := processesOf(path)
	for end := time.Now().Add(10 * time.Second); left != "" && time.Now().Before(end); left = processesOf(path) {
		time.Sleep(50 * time.Millisecond)
	}
	return left
}

// processesOf returns the command lines of the processes that mention a path.
func processesOf(path string) string {
	var left []string
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		if data, err := os.ReadFile(p); err == nil && bytes.Contains(data, []byte(path)) {
			left = append(left, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return strings.Join(left, "\n")
}

// limit returns a context that bounds the waits of a test.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// world is a place with a real capstan-dock, in which a shell script is the plane.
type world struct {
	Place
	// api is the address of the API server that the plane's kubeconfig names.
	api string

	mu    sync.Mutex
	hosts []infrav1.CapstanHost
	notes []string
	// listen also receives the events of up. May be nil.
	listen func(Event)
}

// steady is a plane that becomes ready and stays so. Like a real plane, it takes a moment to become ready: a file
// written before the dock has recorded the plane's start counts as an earlier plane's.
const steady = `sleep 0.5; cp "$0.kubeconfig" "$3/kubeconfig" && echo {} > "$3/plane/ready.json" && exec sleep 600`

// newWorld creates a place whose plane runs a script; in the script, $3 is the home directory. When the test ends, no
// process of the place may remain.
func newWorld(t *testing.T, script string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "capstan-local-") // t.TempDir is too long for a unix socket
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Place: Place{Home: filepath.Join(dir, "home"), Binaries: filepath.Join(dir, "bin")}}
	server := httptest.NewServer(w)
	w.api = server.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = Down(ctx, DownOptions{Home: w.Home})
		server.Close()
		if left := leftOf(dir); left != "" {
			t.Errorf("left behind: %s", left)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"capstan-agent", "capstan-extension", "bundles/v1.36.3/capstan-kube"} {
		w.binary(t, name, "exit 1")
	}
	w.binary(t, "capstan", script)
	if err := os.Link(dockBinary, filepath.Join(w.Binaries, "capstan-dock")); err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["plane"] = &clientcmdapi.Cluster{Server: w.api}
	config.Contexts["plane"] = &clientcmdapi.Context{Cluster: "plane"}
	config.CurrentContext = "plane"
	if err := clientcmd.WriteToFile(*config, filepath.Join(w.Binaries, "capstan.kubeconfig")); err != nil {
		t.Fatal(err)
	}
	return w
}

// binary writes a shell script in place of a binary.
func (w *world) binary(t *testing.T, name, script string) {
	t.Helper()
	path := filepath.Join(w.Binaries, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// up calls Up and keeps the notes that it sends.
func (w *world) up(ctx context.Context, o UpOptions) (Plane, error) {
	o.Place = w.Place
	o.Progress = func(e Event) {
		w.mu.Lock()
		w.notes = append(w.notes, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Kind, e.Step, e.Text)))
		w.mu.Unlock()
		if w.listen != nil {
			w.listen(e)
		}
	}
	return Up(ctx, o)
}

// events returns the events that Up has sent.
func (w *world) events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.notes...)
}

// register sets the hosts of the API server.
func (w *world) register(hosts ...infrav1.CapstanHost) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts = hosts
}

// ServeHTTP acts as an API server that has only CapstanHosts, and that stops with the dock.
func (w *world) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	docked := dock.Connect(w.Home)
	defer docked.Close()
	if _, err := docked.Status(in.Context()); err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	group := metav1.GroupVersionForDiscovery{GroupVersion: infrav1.GroupVersion.String(),
		Version: infrav1.GroupVersion.Version}
	ours := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: infrav1.GroupVersion.Group,
		Versions: []metav1.GroupVersionForDiscovery{group}, PreferredVersion: group,
	}
	answers := map[string]any{
		"/api": metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}},
		"/apis": metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
			Groups: []metav1.APIGroup{ours}},

		"/apis/" + infrav1.GroupVersion.Group: ours,
		"/apis/" + infrav1.GroupVersion.String(): metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: infrav1.GroupVersion.String(),
			APIResources: []metav1.APIResource{{Name: "capstanhosts", SingularName: "capstanhost", Namespaced: true,
				Kind: "CapstanHost", Verbs: metav1.Verbs{"list"}}},
		},
		"/apis/" + infrav1.GroupVersion.String() + "/capstanhosts": infrav1.CapstanHostList{
			TypeMeta: metav1.TypeMeta{Kind: "CapstanHostList", APIVersion: infrav1.GroupVersion.String()}, Items: w.hosts,
		},
	}
	answer, known := answers[in.URL.Path]
	if !known {
		http.NotFound(out, in)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(answer)
}

// inPhase returns hosts with a name and a phase each.
func inPhase(phases ...infrav1.HostPhase) []infrav1.CapstanHost {
	hosts := make([]infrav1.CapstanHost, len(phases))
	for i, phase := range phases {
		hosts[i].Name, hosts[i].Namespace, hosts[i].Status.Phase = fmt.Sprintf("host-%02d", i+1), Namespace, phase
		hosts[i].Spec.Supplier = infrav1.SupplierDock
	}
	return hosts
}

// stopTheDock stops the dock of a home directory without Up's knowledge.
func stopTheDock(ctx context.Context, home string) error {
	docked := dock.Connect(home)
	defer docked.Close()
	return docked.Shutdown(ctx)
}
