package metricsapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	apiwait "k8s.io/apimachinery/pkg/util/wait"
	clientrest "k8s.io/client-go/rest"
)

// cluster is an API server that can make requests fail.
type cluster struct {
	nodes   int               // number of Nodes that run real pods
	objects map[string]string // by path
	applied []string          // paths of applied objects
	asked   int               // number of requests
	fails   func(int) bool    // whether a request fails, by its number from 1; nil: none fails
	selects string            // label selector of the last request for Nodes
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	stored, there := c.objects[r.URL.Path]
	c.asked++
	switch {
	case c.fails != nil && c.fails(c.asked):
		http.Error(w, `{"kind":"Status","apiVersion":"v1","code":500,"message":"not yet"}`, http.StatusInternalServerError)
	case r.URL.Path == "/api/v1/nodes":
		c.selects = r.URL.Query().Get("labelSelector")
		items := slices.Repeat([]any{map[string]string{"kind": "Node", "apiVersion": "v1"}}, c.nodes)
		list := map[string]any{"kind": "NodeList", "apiVersion": "v1", "items": items}
		json.NewEncoder(w).Encode(list)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/apply-patch+yaml":
		c.applied = append(c.applied, r.URL.Path)
		w.Write(body)
	case r.Method == http.MethodGet && there:
		io.WriteString(w, stored)
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

const (
	proxyPath  = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
	dnsPath    = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
	serverPath = "/apis/apps/v1/namespaces/kube-system/deployments/metrics-api"
)

// deployment returns the Deployment of a release's metrics API server.
func deployment(version string) string {
	return fmt.Sprintf(`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"metrics-api"},"spec":{"template":
		{"spec":{"containers":[{"name":"metrics-api","image":"capstan.dev/metrics-api:%s"}]}}}}`, version)
}

func newInstaller(t *testing.T, c *cluster, steps int) *Installer {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	i, err := NewInstaller(&clientrest.Config{Host: server.URL}, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	i.retries = apiwait.Backoff{Duration: time.Millisecond, Steps: steps}
	return i
}

func TestInstallAndRefresh(t *testing.T) {
	const object = `{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"name":"add-on"}}`
	for name, c := range map[string]struct {
		nodes         int
		objects       map[string]string
		installs      bool
		thenRefreshes bool
	}{
		"a new cluster":                            {1, map[string]string{proxyPath: object, dnsPath: object}, true, false},
		"a cluster with another proxy":             {1, map[string]string{dnsPath: object}, true, false},
		"hollow pods, or those of another runtime": {0, map[string]string{proxyPath: object}, false, false},
		"a cluster without add-ons":                {1, nil, false, false},
		"a cluster with an older metrics API":      {0, map[string]string{serverPath: deployment("v1.35.4")}, false, true},
		"a cluster with this metrics API":          {0, map[string]string{serverPath: deployment("v1.36.3")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			world := &cluster{nodes: c.nodes, objects: c.objects}
			i := newInstaller(t, world, 1)
			for what, step := range map[string]struct {
				take func(*Installer) (bool, error)
				want bool
			}{
				"installs":  {func(i *Installer) (bool, error) { return i.Install(t.Context()) }, c.installs},
				"refreshes": {func(i *Installer) (bool, error) { return i.Refresh(t.Context()) }, c.thenRefreshes},
			} {
				world.applied = nil
				done, err := step.take(i)
				if done != step.want || err != nil || (len(world.applied) > 0) != step.want {
					t.Errorf("%s: %v, %v, applied %q; want %v", what, done, err, world.applied, step.want)
				}
			}
			if world.selects != "capstan.dev/ids" {
				t.Errorf("asked for Nodes with %q", world.selects)
			}
		})
	}
}

// TestInstallTriesAgain makes each request fail once, then the first requests, and at last all requests.
func TestInstallTriesAgain(t *testing.T) {
	objects, err := objectsOf(Manifest("v1.36.3"))
	if err != nil {
		t.Fatal(err)
	}
	const dns = `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"coredns"}}`
	install := func(t *testing.T, fails func(int) bool) *cluster {
		t.Helper()
		world := &cluster{nodes: 1, objects: map[string]string{dnsPath: dns}, fails: fails}
		done, err := newInstaller(t, world, len(objects)+4).Install(t.Context())
		if !done || err != nil || len(world.applied) < len(objects) {
			t.Fatalf("%v, %v, applied %q", done, err, world.applied)
		}
		last := world.applied[len(world.applied)-len(objects):] // an attempt applies all of them, in this order
		for n, object := range objects {
			if path := last[n]; !strings.HasSuffix(path, "/"+object.GetName()) ||
				!strings.Contains(path, "/"+strings.ToLower(object.GetKind())+"s/") ||
				strings.Contains(path, "/namespaces/kube-system/") != (object.GetNamespace() != "") {
				t.Errorf("%s %s was applied at %s", object.GetKind(), object.GetName(), path)
			}
		}
		return world
	}
	total := install(t, nil).asked
	if total <= len(objects) {
		t.Fatalf("an undisturbed installation sent only %d requests", total)
	}
	for n := range total {
		t.Run(fmt.Sprintf("request %d fails", n+1), func(t *testing.T) {
			if got := install(t, func(asked int) bool { return asked == n+1 }).asked; got <= total {
				t.Errorf("%d requests, want more than %d", got, total)
			}
		})
		t.Run(fmt.Sprintf("the first %d fail", n+1), func(t *testing.T) {
			install(t, func(asked int) bool { return asked <= n+1 })
		})
	}
	world := &cluster{fails: func(int) bool { return true }}
	if done, err := newInstaller(t, world, 3).Install(t.Context()); done || err == nil ||
		!strings.Contains(err.Error(), "listing Nodes") {
		t.Errorf("while everything fails: %v, %v", done, err)
	}
}
