//go:build linux

// Package realtest tests real containers of the CRI server over its socket, which the tests use as the kubelet does.
// The tests run at each level of package hosttest: once with 65,536 ids, and once with one.
package realtest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri"
	"github.com/capstan-dev/capstan/kube/internal/hosttest"
)

const (
	limit          = time.Minute
	serverVariable = "CAPSTAN_TEST_SERVER"
	imageName      = "registry.example/program:1"
	imageID        = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
)

func TestMain(m *testing.M) {
	if step := os.Getenv(killVariable); step != "" {
		os.Exit(serveUntil(step))
	}
	if os.Getenv(serverVariable) != "" {
		own := cri.Contents{Kubernetes: "v1.36.3", Applets: []string{"etcd"}}
		os.Exit(cri.Main(own, os.Args[1:], os.Stderr))
	}
	os.Exit(hosttest.Main(m, map[string]string{
		"capstan-run": "../../cmd/capstan-run", "program": "../../run/testdata/program",
		"bundle": "./testdata/bundle",
	}))
}

// host is a host with an image store and with a CRI server, which runs in its own process.
type host struct {
	runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
	t      testing.TB
	ctx    context.Context
	dir    string
	groups string // the directory of the host's control groups, if it has any
	server *exec.Cmd
	conn   *grpc.ClientConn
}

// newHost starts a host, and checks after the test that it leaves nothing.
func newHost(t testing.TB) *host {
	t.Helper()
	h := newNode(t)
	h.learn("10.244.1.0/24,fd00:1::/64")
	return h
}

// newNode starts a host whose kubelet does not know the Node's pod range yet.
func newNode(t testing.TB) *host {
	t.Helper()
	hosttest.Need(t)
	h := &host{t: t, dir: t.TempDir(), groups: hosttest.GroupsIfAny()}
	hosttest.CheckClean(t)
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	t.Cleanup(cancel)
	h.ctx = ctx
	loopback(t)
	h.serveImages()
	t.Cleanup(func() {
		h.removeAll()
		h.kill()
		for _, kind := range []string{"containers", "sandboxes", "pods"} {
			if left, _ := filepath.Glob(filepath.Join(h.dir, "state", kind, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(h.groups, "*/pods/*/cgroup.procs")); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	})
	h.start()
	return h
}

// learn tells the server the Node's pod range, as the kubelet does.
func (h *host) learn(cidrs string) {
	h.t.Helper()
	_, err := h.UpdateRuntimeConfig(h.ctx, &runtimeapi.UpdateRuntimeConfigRequest{
		RuntimeConfig: &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidrs}},
	})
	h.must(err)
}

// loopback brings up the host's loopback interface, which streams need.
func loopback(t testing.TB) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatal(err)
	}
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// serveImages runs an image store with one image, which must first be pulled with a password.
func (h *host) serveImages() {
	layer := filepath.Join(h.dir, "layers", "one")
	for _, dir := range []string{"bin", "etc"} {
		h.must(os.MkdirAll(filepath.Join(layer, dir), 0o755))
	}
	program, err := os.ReadFile(hosttest.Tool("program"))
	h.must(err)
	h.must(os.WriteFile(filepath.Join(layer, "bin/program"), program, 0o755))
	h.must(os.WriteFile(filepath.Join(layer, "etc/passwd"), []byte("web:x:101:102:web:/srv:/bin/false\n"), 0o644))
	image := map[string]any{
		"id": imageID, "names": []string{imageName}, "size": 1000, "pinned": true, "layers": []string{"one"},
		"config": map[string]any{"config": map[string]any{
			"User": "web", "Env": []string{"FROM=image", "BOTH=image"}, "Entrypoint": []string{"/bin/program"},
			"Cmd": []string{"say=default"}, "WorkingDir": "/srv", "StopSignal": "SIGTERM",
		}},
	}
	pulled := false
	refuse := func(w http.ResponseWriter, status int, code, message string) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"code": code, "message": message, "advice": "load it"})
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Image string
			Auth  struct{ Password string }
		}
		json.NewDecoder(r.Body).Decode(&q)
		if r.URL.Path == "/v1/pull" && q.Image == imageName {
			if q.Auth.Password != "secret" {
				refuse(w, http.StatusForbidden, "Denied", "the registry wants another credential")
				return
			}
			pulled = true
		}
		if (q.Image != imageName && q.Image != imageID) || !pulled {
			refuse(w, http.StatusNotFound, "NotFound", "there is no image "+q.Image)
			return
		}
		json.NewEncoder(w).Encode(image)
	}
	mux.HandleFunc("POST /v1/status", answer)
	mux.HandleFunc("POST /v1/pull", answer)
	mux.HandleFunc("POST /v1/remove", func(w http.ResponseWriter,
		_ *http.Request) {
		pulled = false
		w.Write([]byte("{}"))
	})
	mux.HandleFunc("GET /v1/images", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode([]any{image})
	})
	mux.HandleFunc("GET /v1/fs", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"path": "/images", "bytes": 77, "inodes": 8})
	})
	listener, err := net.Listen("unix", filepath.Join(h.dir, "images.sock"))
	h.must(err)
	server := &http.Server{Handler: mux}
	go server.Serve(listener)
	h.t.Cleanup(func() { server.Close() })
}

// start starts the CRI server with additional environment variables.
func (h *host) start(env ...string) {
	h.t.Helper()
	socket := filepath.Join(h.dir, "sock")
	h.server = exec.Command("/proc/self/exe", "--state", filepath.Join(h.dir, "state"), "--listen", "unix://"+socket,
		"--hollow=false", "--listen-hollow=", "--listen-real=", "--images", filepath.Join(h.dir, "images.sock"),
		"--layers", filepath.Join(h.dir, "layers"), "--bundles", filepath.Join(h.dir, "bundles"),
		"--groups", h.groups, "--runner", hosttest.Tool("capstan-run"))
	h.server.Env = append(append(os.Environ(), serverVariable+"=1"), env...)
	h.server.Stderr = os.Stderr
	h.server.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	h.must(h.server.Start())
	conn, err := grpc.NewClient("passthrough:///"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1,
				MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: limit,
		}),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", addr)
		}))
	h.must(err)
	h.conn = conn
	h.RuntimeServiceClient = runtimeapi.NewRuntimeServiceClient(conn)
	h.images = runtimeapi.NewImageServiceClient(conn)
	h.waitFor("the server", func() bool {
		_, err := h.Version(h.ctx, &runtimeapi.VersionRequest{})
		return err == nil
	})
}

// kill kills the server, as a crash would.
func (h *host) kill() {
	h.conn.Close()
	h.server.Process.Kill()
	h.server.Wait()
}

func (h *host) waitFor(what string, done func() bool) {
	h.t.Helper()
	hosttest.WaitFor(h.t, what, done, func() string { return "not yet" })
}

// removeAll removes all pods.
func (h *host) removeAll() {
	list, err := h.ListPodSandbox(h.ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		h.t.Error(err)
		return
	}
	for _, pod := range list.Items {
		if _, err := h.RemovePodSandbox(h.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.Id}); err != nil {
			h.t.Error(err)
		}
	}
}

// pull pulls the test image.
func (h *host) pull() {
	h.t.Helper()
	_, err := h.images.PullImage(h.ctx, &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: imageName}, Auth: &runtimeapi.AuthConfig{Username: "me",
			Password: "secret"},
	})
	h.must(err)
}

// pod creates a pod.
func (h *host) pod(change func(*runtimeapi.PodSandboxConfig)) (string, *runtimeapi.PodSandboxConfig) {
	h.t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "default", Uid: "uid"},
		Hostname:     "pod",
		LogDirectory: filepath.Join(h.dir, "logs"),
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"svc.cluster.local"}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	if change != nil {
		change(config)
	}
	resp, err := h.RunPodSandbox(h.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	h.must(err)
	return resp.PodSandboxId, config
}

// create creates a container of a pod with these arguments.
func (h *host) create(
	pod string, podConfig *runtimeapi.PodSandboxConfig, change func(*runtimeapi.ContainerConfig), args ...string,
) string {
	h.t.Helper()
	h.pull()
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: imageID, UserSpecifiedImage: imageName},
		Args:     args,
		LogPath:  "main/0.log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{OomScoreAdj: 500},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NoNewPrivs:       true,
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
				NamespaceOptions: podConfig.Linux.SecurityContext.NamespaceOptions,
			},
		},
	}
	if change != nil {
		change(config)
	}
	resp, err := h.CreateContainer(h.ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: pod, Config: config, SandboxConfig: podConfig,
	})
	h.must(err)
	return resp.ContainerId
}

// run creates a pod with one container and starts it.
func (h *host) run(change func(*runtimeapi.ContainerConfig), args ...string) (container, pod string) {
	h.t.Helper()
	pod, config := h.pod(nil)
	container = h.create(pod, config, change, args...)
	h.startContainer(container)
	return container, pod
}

func (h *host) startContainer(id string) {
	h.t.Helper()
	_, err := h.StartContainer(h.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	h.must(err)
}

func (h *host) status(container string) *runtimeapi.ContainerStatus {
	h.t.Helper()
	resp, err := h.ContainerStatus(h.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container})
	h.must(err)
	return resp.Status
}

func (h *host) log(container string) string {
	data, _ := os.ReadFile(h.status(container).LogPath)
	return string(data)
}

// logged waits for a line of the log.
func (h *host) logged(container, line string) {
	h.t.Helper()
	hosttest.WaitFor(h.t, "the log to have "+line, func() bool { return strings.Contains(h.log(container), line+"\n") },
		func() string { return h.log(container) })
}

func (h *host) exited(container string) *runtimeapi.ContainerStatus {
	h.t.Helper()
	h.waitFor("the container to exit", func() bool {
		return h.status(container).State == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return h.status(container)
}
