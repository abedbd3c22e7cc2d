//go:build linux

package kube_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	podImage = "registry.example/pod:1"
	podLimit = 40 * time.Second
)

// serveImages runs an image store for a host, with one image. Its only layer contains only the program of testdata/pod.
func serveImages(t *testing.T, h *host) {
	t.Helper()
	layer := filepath.Join(h.root, "opt/capstan/layers/one")
	if err := os.MkdirAll(layer, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(layer, "pod"), "./testdata/pod")
	if tools := os.Getenv("CAPSTAN_HOST_TOOLS"); tools != "" { // so that a user without Go can run the tests
		build = exec.Command("cp", filepath.Join(tools, "pod"), layer)
	}
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program of the image: %v: %s", err, out)
	}
	image := map[string]any{
		"id":    "sha256:" + strings.Repeat("1", 64),
		"names": []string{podImage}, "size": 1000, "layers": []string{"one"},
		"config": map[string]any{"config": map[string]any{"Entrypoint": []string{"/pod"}}},
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Image string }
		json.NewDecoder(r.Body).Decode(&q)
		if q.Image != podImage && q.Image != image["id"] {
			w.WriteHeader(http.StatusNotFound)
			json.NewEncoder(w).Encode(map[string]string{"code": "NotFound", "message": "there is no image " + q.Image})
			return
		}
		json.NewEncoder(w).Encode(image)
	}
	mux.HandleFunc("POST /v1/status", answer)
	mux.HandleFunc("POST /v1/pull", answer)
	mux.HandleFunc("GET /v1/images", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode([]any{image})
	})
	mux.HandleFunc("GET /v1/fs", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"path": "/opt/capstan/layers", "bytes": 77, "inodes": 8})
	})
	socket := filepath.Join(h.root, "opt/capstan/images/images.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
}

// realConfig creates a Node without taints, so that it accepts all pods. Pods are real by default, and their range is
// the default one.
const realConfig = `
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {taints: []}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %s
controllerManager:
  extraArgs:
  - {name: kube-api-qps, value: "200"}
  - {name: kube-api-burst, value: "400"}
  - {name: leader-elect-retry-period, value: 500ms}
  - {name: leader-elect-renew-deadline, value: 3s}
  - {name: leader-elect-lease-duration, value: 4s}
`

// TestRealNode runs pods from an image on a real Node and checks what the API promises about volumes, probes, hooks and
// terminations.
func TestRealNode(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a whole node")
	}
	bundles, version := bundle(t)
	w := newWorld(t, bundles, version)
	h := w.host("node", 11)
	serveImages(t, h)
	step := steps(t)
	h.write("/etc/resolv.conf", "nameserver 10.99.0.1\n")
	h.write("/root/init.yaml", withDNS(t, fmt.Sprintf(realConfig, version), bundles, version))
	h.kubeadm("init", "--config", "/root/init.yaml", "--skip-phases=addon")
	waitFor(t, nodeLimit, "the Node", func() error { return nodeReady(h, "node") })
	waitFor(t, nodeLimit, "the service account", func() error {
		_, err := h.try("kubectl", "get", "serviceaccount", "default")
		return err
	})
	step("the Node is Ready")
	ids := "all"
	if os.Getuid() != 0 {
		ids = "one"
	}
	labels := "capstan.dev/ids=" + ids + ",!capstan.dev/hollow"
	if out := h.must("kubectl", "get", "nodes", "-l", labels, "-o", "name"); out == "" {
		t.Errorf("the Node lacks its labels: %s", h.must("kubectl", "get", "nodes", "--show-labels"))
	}
	if err := os.Mkdir(filepath.Join(h.root, "root/disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"volumes.yaml", "life.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata/real", file))
		if err != nil {
			t.Fatal(err)
		}
		h.write("/root/"+file, string(text))
		h.must("kubectl", "apply", "-f", "/root/"+file)
	}
	checkPods(t, h, ids)
	h.must("kubectl", "wait", "--for=condition=Complete", "job/job", "--timeout=40s")
	step("pods that end did what they should")
	running(t, h)
	step("pods that keep running did what they should")
	if out := h.must("kubectl", "get", "--raw", "/metrics"); !strings.Contains(out, "\nrest_client_requests_total{") {
		t.Error("the API server reports no metrics of its client: perhaps another library registered its metrics first")
	}
	nameServer(t, h)
	step("CoreDNS answered")
}

// podList holds the fields that the tests check.
type podList struct {
	Items []pod
}

type pod struct {
	Metadata struct {
		Name, UID   string
		Annotations map[string]string
	}
	Spec   struct{ Containers []struct{ Name string } }
	Status struct {
		Phase             string
		ContainerStatuses []struct {
			Name, ContainerID string
			Ready             bool
			RestartCount      int
			State             struct{ Running *struct{} }
		}
	}
}

func pods(h *host) (podList, error) {
	var list podList
	out, err := h.try("kubectl", "get", "pods", "-A", "-o", "json")
	if err != nil {
		return list, err
	}
	return list, json.Unmarshal([]byte(out), &list)
}

// checkPods waits until each pod matches its annotations: log, status and phase. ids is the name of an annotation that
// takes precedence over log. phase defaults to Succeeded for a pod with a log.
func checkPods(t *testing.T, h *host, ids string) {
	list, err := pods(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		said := p.Metadata.Annotations
		want, hasLog := said["log"]
		if other, has := said[ids]; has {
			want = other
		}
		if !hasLog && said["phase"] == "" {
			continue
		}
		t.Run(p.Metadata.Name, func(t *testing.T) {
			var last error
			defer func() {
				if t.Failed() {
					out, _ := h.try("kubectl", "describe", "pod", p.Metadata.Name)
					_, events, _ := strings.Cut(out, "Events:")
					logs, _ := h.try("kubectl", "logs", "--all-containers", p.Metadata.Name)
					t.Logf("%v\nevents:%s\nlogs:\n%s", last, events, logs)
				}
			}()
			phase := said["phase"]
			if phase == "" {
				phase = "Succeeded"
			}
			waitFor(t, podLimit, "pod "+p.Metadata.Name, func() error {
				last = is(h, p.Metadata.Name, "{.status.phase}", phase)
				for line := range strings.Lines(said["status"]) {
					path, value, _ := strings.Cut(strings.TrimSpace(line), " is ")
					last = errors.Join(last, is(h, p.Metadata.Name, path, value))
				}
				return last
			})
			if !hasLog {
				return
			}
			want := strings.ReplaceAll(want, "KEPT-GROUPS", keptGroups(t))
			if out := h.must("kubectl", "logs", p.Metadata.Name, "-c", "main"); out != want {
				t.Errorf("the pod printed\n%swant\n%s", out, want)
			}
		})
	}
}

// keptGroups returns the supplementary groups of a container of group 3000 on a host with one id, as the image's
// program prints them. Such a host can't change the groups of the user who runs it, so containers keep them: the user's
// own group is the container's, and the others have no number there, so Linux shows 65534.
func keptGroups(t *testing.T) string {
	t.Helper()
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range groups {
		groups[i] = 65534
		if g == os.Getgid() {
			groups[i] = 3000
		}
	}
	return fmt.Sprint(groups)
}

// is returns an error until the field at path of a pod has the value want.
func is(h *host, name, path, want string) error {
	got, err := h.try("kubectl", "get", "pod", name, "-o", "jsonpath="+path)
	if err == nil && strings.TrimSpace(got) != want {
		err = fmt.Errorf("pod %s: %s is %q, want %q", name, path, got, want)
	}
	return err
}
