//go:build linux

package cri

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
	"github.com/capstan-dev/capstan/kube/cri/process"
)

const limit = 20 * time.Second

// client calls a server through its socket.
type client struct {
	runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
	t      *testing.T
	ctx    context.Context
	dir    string
}

// options returns the options of a server whose components are the test binary.
func options(t *testing.T, dir string) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		State: filepath.Join(dir, "state"),
		Bundles: Bundles{
			Dir: filepath.Join(dir, "bundles"), Own: self, Contents: Contents{Kubernetes: "v1.36.3", Applets: []string{"etcd"}},
		},
		Env: map[string][]string{"etcd": {"CAPSTAN_TEST_FILE=" + filepath.Join(dir, "file")}},
	}
}

// serve runs a server in this process, and checks after the test that it leaves nothing.
func serve(t *testing.T, opts Options) *client {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	path := filepath.Join(filepath.Dir(opts.State), "sock")
	listener, err := listenUnix("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, Endpoint{Listener: listener}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		killAll(t, s.instance)
		checkGoroutines(t)
	})
	return dial(t, path)
}

// dial connects to a server.
func dial(t *testing.T, path string) *client {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: limit,
		}),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", addr)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	t.Cleanup(cancel)
	return &client{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn), t, ctx,
		filepath.Dir(path)}
}

// killAll kills the processes of a server.
func killAll(t *testing.T, instance string) {
	t.Helper()
	found, err := process.Find()
	if err != nil {
		t.Error(err)
	}
	for token, pid := range found {
		if strings.HasPrefix(token, instance+"/") {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// checkGoroutines waits until this package has no goroutine but the test's own.
func checkGoroutines(t *testing.T) {
	t.Helper()
	var stacks string
	waitFor(t, "goroutines to end", func() bool {
		buf := make([]byte, 1<<20)
		stacks = ""
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "kube/cri.(*") && !strings.Contains(stack, "testing.tRunner") {
				stacks += stack + "\n\n"
			}
		}
		return stacks == ""
	})
}

// waitFor waits for a condition.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", limit, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// sandbox creates a sandbox of a static pod.
func (c *client) sandbox(annotations map[string]string) (string, *runtimeapi.PodSandboxConfig) {
	c.t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Namespace: "kube-system", Uid: "uid-" + newID()[:8]},
		LogDirectory: filepath.Join(c.dir, "logs"),
		Annotations:  annotations,
		Labels:       map[string]string{"app": "x"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}},
	}
	resp, err := c.RunPodSandbox(c.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.PodSandboxId, config
}

var static = map[string]string{component.SourceAnnotation: "file"}

// create creates a container, and start starts it too.
func (c *client) create(sandbox string, config *runtimeapi.PodSandboxConfig, image string, args ...string) string {
	c.t.Helper()
	resp, err := c.CreateContainer(c.ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: image},
			Command:  args,
			LogPath:  "main/0.log",
			Envs:     []*runtimeapi.KeyValue{{Key: componentVariable, Value: []byte("1")}},
		},
		SandboxConfig: config,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.ContainerId
}

func (c *client) start(image string, args ...string) (container, sandbox string) {
	c.t.Helper()
	sandbox, config := c.sandbox(static)
	container = c.create(sandbox, config, image, args...)
	if _, err := c.StartContainer(c.ctx, &runtimeapi.StartContainerRequest{ContainerId: container}); err != nil {
		c.t.Fatal(err)
	}
	return container, sandbox
}

// component starts a component that executes args.
func (c *client) component(args ...string) (container, sandbox string) {
	c.t.Helper()
	return c.start("registry.example/etcd:3.6.8-0", append([]string{"etcd"}, args...)...)
}

func (c *client) status(container string) *runtimeapi.ContainerStatus {
	c.t.Helper()
	resp, err := c.ContainerStatus(c.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.Status
}

func (c *client) waitExited(container string) *runtimeapi.ContainerStatus {
	c.t.Helper()
	waitFor(c.t, "the container to exit", func() bool {
		return c.status(container).State == runtimeapi.ContainerState_CONTAINER_EXITED
	})
	return c.status(container)
}

// logged waits for a line in the container's log.
func (c *client) logged(container, line string) {
	c.t.Helper()
	path := c.status(container).LogPath
	waitFor(c.t, "the log to have "+line, func() bool {
		data, _ := os.ReadFile(path)
		return strings.Contains(string(data), line+"\n")
	})
}

func (c *client) stop(container string, seconds int64) {
	c.t.Helper()
	if _, err := c.StopContainer(c.ctx, &runtimeapi.StopContainerRequest{
		ContainerId: container, Timeout: seconds,
	}); err != nil {
		c.t.Fatal(err)
	}
}
