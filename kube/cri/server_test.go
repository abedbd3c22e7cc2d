//go:build linux

package cri

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
	"github.com/capstan-dev/capstan/kube/cri/process"
)

const limit = 20 * time.Second

// client talks to a server over its socket.
type client struct {
	runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
	t      *testing.T
	ctx    context.Context
	dir    string
}

// options are those of a server whose components are the test binary.
func options(t *testing.T, dir string) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		State:   filepath.Join(dir, "state"),
		Bundles: Bundles{Dir: filepath.Join(dir, "bundles"), Own: self, OwnVersion: "v1.36.3", Applets: []string{"etcd"}},
		Env:     map[string][]string{"etcd": {"CAPSTAN_TEST_FILE=" + filepath.Join(dir, "file")}},
	}
}

// serve runs a server in this process, and checks after the test that nothing of it is left.
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
	go func() { served <- s.Serve(ctx, listener) }()
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
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: limit}),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", addr)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 3*limit)
	t.Cleanup(cancel)
	return &client{runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn), t, ctx, filepath.Dir(path)}
}

// killAll ends the processes of a server.
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

// checkGoroutines waits until no goroutine of this package is left but the test's own.
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

// sandbox makes a sandbox of a static pod.
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

// component starts a component that does what args say.
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
	if _, err := c.StopContainer(c.ctx, &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: seconds}); err != nil {
		c.t.Fatal(err)
	}
}

func TestAComponentRunsLogsAndStops(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	container, sandbox := c.component("complain", "run")
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_RUNNING || got.StartedAt == 0 {
		t.Fatalf("a started component is %v", got)
	}
	c.logged(container, "stdout F name etcd") // the name picks the applet
	c.logged(container, "stderr F complaint")
	c.logged(container, "stdout F running")
	c.stop(container, 20)
	got := c.status(container)
	if got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 7 || got.Reason != "Error" || got.FinishedAt < got.StartedAt {
		t.Errorf("a stopped component is %v", got)
	}
	c.logged(container, "stdout F ending") // the log is whole when the end is reported
	c.stop(container, 0)                   // again is fine

	for range 2 {
		if _, err := c.RemovePodSandbox(c.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.ContainerStatus(c.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container})
	if status.Code(err) != codes.NotFound {
		t.Errorf("status of a removed container: %v, want NotFound", err)
	}
	for _, kind := range []string{"containers", "sandboxes"} {
		if left, _ := filepath.Glob(filepath.Join(c.dir, "state", kind, "*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestHowComponentsEnd(t *testing.T) {
	cases := map[string]struct {
		args   []string
		stop   bool
		code   int32
		reason string
	}{
		"one that fails":                             {[]string{"fail"}, false, 3, "Error"},
		"one that is done":                           {nil, false, 0, "Completed"},
		"one that does not listen is killed":         {[]string{"ignore-term", "run-for-ever"}, true, 137, "Error"},
		"a log that is longer than the pipe is kept": {[]string{"shout", "fail"}, false, 3, "Error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := serve(t, options(t, t.TempDir()))
			container, _ := c.component(tc.args...)
			if tc.stop {
				c.logged(container, "stdout F running")
				c.stop(container, 1)
			}
			got := c.waitExited(container)
			if got.ExitCode != tc.code || got.Reason != tc.reason {
				t.Errorf("it ended with %d %s, want %d %s", got.ExitCode, got.Reason, tc.code, tc.reason)
			}
			if len(tc.args) > 0 && tc.args[0] == "shout" {
				c.logged(container, "stdout F line 999")
			}
		})
	}
}

func TestHollowContainers(t *testing.T) {
	ends := map[string]string{component.EndsAnnotation: "init,main"}
	cases := map[string]struct {
		image       string
		annotations map[string]string
		want        runtimeapi.ContainerState
	}{
		"any image":                             {"registry.example/coredns:v1.14.2", static, runtimeapi.ContainerState_CONTAINER_RUNNING},
		"a component that came through the API": {"registry.example/etcd:3.6.8-0", map[string]string{component.SourceAnnotation: "api"}, runtimeapi.ContainerState_CONTAINER_RUNNING},
		"one that is meant to end":              {"registry.example/busybox", ends, runtimeapi.ContainerState_CONTAINER_EXITED},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := serve(t, options(t, t.TempDir()))
			sandbox, config := c.sandbox(tc.annotations)
			container := c.create(sandbox, config, tc.image)
			if _, err := c.StartContainer(c.ctx, &runtimeapi.StartContainerRequest{ContainerId: container}); err != nil {
				t.Fatal(err)
			}
			got := c.status(container)
			if got.State != tc.want || got.ExitCode != 0 || got.Image.Image != tc.image {
				t.Errorf("it is %v, want state %s", got, tc.want)
			}
			c.logged(container, "stdout F This container is hollow: on this host only control plane components run, "+tc.image+" does not.")
			if _, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{"true"}}); status.Code(err) != codes.FailedPrecondition {
				t.Errorf("exec in it: %v, want FailedPrecondition", err)
			}
			c.stop(container, 0)
			if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 0 {
				t.Errorf("stopped it is %v", got)
			}
		})
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	sandbox, config := c.sandbox(static)
	_, err := c.CreateContainer(c.ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: "registry.example/kube-apiserver:v1.36.3"},
		Mounts:   []*runtimeapi.Mount{{HostPath: "/etc/audit.yaml", ContainerPath: "/etc/policies/audit.yaml"}},
	}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "/etc/policies/audit.yaml") {
		t.Errorf("a mount at another path: %v, want InvalidArgument and the path", err)
	}
	for name, tc := range map[string]struct{ image, command, want string }{
		"a version without a bundle": {"registry.example/kube-apiserver:v1.12.0", "kube-apiserver", "no bundle has kube-apiserver v1.12.0"},
		"another command":            {"registry.example/etcd:3.6.8-0", "/bin/sh", `command "/bin/sh" is not in this host's image of etcd`},
	} {
		t.Run(name, func(t *testing.T) {
			container := c.create(sandbox, config, tc.image, tc.command)
			_, err := c.StartContainer(c.ctx, &runtimeapi.StartContainerRequest{ContainerId: container})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it started with %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestReopenContainerLog(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	container, _ := c.component("run")
	c.logged(container, "stdout F running")
	path := c.status(container).LogPath
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReopenContainerLog(c.ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: container}); err != nil {
		t.Fatal(err)
	}
	c.stop(container, 20)
	c.logged(container, "stdout F ending")
}

func TestExecSync(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	container, _ := c.component("run")
	cases := map[string]struct {
		command  []string
		out, err string
		code     int32
	}{
		"a command of the host":    {[]string{"sh", "-c", "echo out; echo err >&2; exit 4"}, "out\n", "err\n", 4},
		"the component's own name": {[]string{"etcd", "fail"}, "name etcd\n", "", 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			resp, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: tc.command})
			if err != nil {
				t.Fatal(err)
			}
			if string(resp.Stdout) != tc.out || string(resp.Stderr) != tc.err || resp.ExitCode != tc.code {
				t.Errorf("got %q, %q, %d; want %q, %q, %d", resp.Stdout, resp.Stderr, resp.ExitCode, tc.out, tc.err, tc.code)
			}
		})
	}
	if _, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{"sleep", "60"}, Timeout: 1}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a command that takes too long: %v, want DeadlineExceeded", err)
	}
	if _, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{"no-such-command"}}); status.Code(err) != codes.NotFound {
		t.Errorf("a command that isn't there: %v, want NotFound", err)
	}
}

func TestEvents(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	stream, err := c.GetContainerEvents(c.ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// The stream is there when it has carried something.
	events := make(chan *runtimeapi.ContainerEventResponse, 100)
	go func() {
		defer close(events)
		for {
			ev, err := stream.Recv()
			if err != nil {
				return
			}
			events <- ev
		}
	}()
	waitFor(t, "the stream", func() bool {
		c.sandbox(nil)
		select {
		case <-events:
			return true
		default:
			return false
		}
	})
	container, _ := c.component("fail")
	var got []runtimeapi.ContainerEventType
	for len(got) < 3 {
		select {
		case ev := <-events:
			if ev.ContainerId == container {
				got = append(got, ev.ContainerEventType)
				if ev.PodSandboxStatus == nil || len(ev.ContainersStatuses) != 1 {
					t.Errorf("event without the state of the pod: %v", ev)
				}
			}
		case <-time.After(limit):
			t.Fatalf("got only events %v", got)
		}
	}
	want := []runtimeapi.ContainerEventType{runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT,
		runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("events %v, want %v", got, want)
			break
		}
	}
}

func TestImages(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	const ref = "registry.example/kube-proxy:v1.36.3"
	pulled, err := c.images.PullImage(c.ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ref, pulled.ImageRef} {
		st, err := c.images.ImageStatus(c.ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		if err != nil || st.Image.GetId() != pulled.ImageRef || st.Image.RepoTags[0] != ref || st.Image.Size == 0 {
			t.Errorf("status of %s: %v, %v", name, st, err)
		}
	}
	list, err := c.images.ListImages(c.ctx, &runtimeapi.ListImagesRequest{})
	if err != nil || len(list.Images) != 1 {
		t.Errorf("list: %v, %v; want one image", list, err)
	}
	if _, err := c.images.RemoveImage(c.ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}}); err != nil {
		t.Fatal(err)
	}
	if list, err = c.images.ListImages(c.ctx, &runtimeapi.ListImagesRequest{}); err != nil || len(list.Images) != 0 {
		t.Errorf("list after removal: %v, %v; want none", list, err)
	}
	fs, err := c.images.ImageFsInfo(c.ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil || len(fs.ImageFilesystems) != 1 || len(fs.ContainerFilesystems) != 1 {
		t.Errorf("filesystems: %v, %v; want one of each", fs, err)
	}
}

func TestOneServerForEachStateDirectory(t *testing.T) {
	opts := options(t, t.TempDir())
	serve(t, opts)
	if s, err := New(opts); err == nil {
		s.Close()
		t.Error("a second server took the same state directory")
	} else if !strings.Contains(err.Error(), "another CRI server uses") {
		t.Errorf("got %v", err)
	}
}

// spawn runs a server as a process of its own, which kill ends by SIGKILL.
func spawn(t *testing.T, opts Options) (c *client, kill func()) {
	t.Helper()
	dir := filepath.Dir(opts.State)
	path := filepath.Join(dir, "sock")
	cmd := exec.Command(opts.Bundles.Own, "--state", opts.State, "--listen", "unix://"+path, "--bundles", opts.Bundles.Dir,
		"--env", "etcd="+strings.Join(opts.Env["etcd"], ","))
	cmd.Env = append(os.Environ(), serverVariable+"=1")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(func() {
		kill()
		if instance, err := (store{opts.State}).instance(); err == nil {
			killAll(t, instance)
		}
	})
	c = dial(t, path)
	waitFor(t, "the server", func() bool {
		_, err := c.Version(c.ctx, &runtimeapi.VersionRequest{})
		return err == nil
	})
	return c, kill
}

func TestTheServiceManagerIsTold(t *testing.T) {
	opts := options(t, t.TempDir())
	path := filepath.Join(filepath.Dir(opts.State), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	spawn(t, opts)
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("it was told %q, %v", buf[:n], err)
	}
}

func TestComponentsOutliveAKilledServer(t *testing.T) {
	opts := options(t, t.TempDir())
	c, kill := spawn(t, opts)
	container, _ := c.component("wait-for-file", "shout", "run")
	c.logged(container, "stdout F name etcd")
	found, err := process.Find()
	if err != nil {
		t.Fatal(err)
	}
	kill()
	// The component goes on while nobody reads its output.
	if err := os.WriteFile(filepath.Join(c.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ = spawn(t, opts)
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("after the kill it is %v", got)
	}
	c.logged(container, "stdout F line 0")
	c.logged(container, "stdout F line 999")
	c.logged(container, "stdout F running")
	again, err := process.Find()
	if err != nil {
		t.Fatal(err)
	}
	for token, pid := range found {
		if strings.HasSuffix(token, container) && again[token] != pid {
			t.Errorf("the process is %d, was %d", again[token], pid)
		}
	}
	if _, err := c.StartContainer(c.ctx, &runtimeapi.StartContainerRequest{ContainerId: container}); err == nil {
		t.Error("a container that runs was started once more")
	}
	c.stop(container, 20)
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 7 {
		t.Errorf("stopped it is %v, want exit code 7", got)
	}
	c.logged(container, "stdout F ending")
}

func TestComponentsThatEndWhileTheServerIsDead(t *testing.T) {
	opts := options(t, t.TempDir())
	c, kill := spawn(t, opts)
	container, _ := c.component("run-for-ever")
	c.logged(container, "stdout F running")
	kill()
	instance, err := (store{opts.State}).instance()
	if err != nil {
		t.Fatal(err)
	}
	killAll(t, instance)
	waitFor(t, "the process to end", func() bool {
		found, err := process.Find()
		return err == nil && found[instance+"/"+container] == 0
	})
	c, _ = spawn(t, opts)
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != process.CodeUnknown || got.Reason != "Unknown" {
		t.Errorf("it is %v", got)
	}
}

func TestAStrayProcessIsEnded(t *testing.T) {
	opts := options(t, t.TempDir())
	c, kill := spawn(t, opts)
	container, _ := c.component("run-for-ever")
	c.logged(container, "stdout F running")
	kill()
	// As after a crash between the removal of the record and the end of the process.
	if err := os.RemoveAll(filepath.Join(opts.State, "containers", container)); err != nil {
		t.Fatal(err)
	}
	spawn(t, opts)
	found, err := process.Find()
	if err != nil {
		t.Fatal(err)
	}
	for token := range found {
		if strings.HasSuffix(token, container) {
			t.Errorf("process %d runs without a container", found[token])
		}
	}
}

func TestAStartThatWasNotRecordedIsFound(t *testing.T) {
	opts := options(t, t.TempDir())
	c, kill := spawn(t, opts)
	container, _ := c.component("run")
	c.logged(container, "stdout F running")
	kill()
	// As after a crash between the start of the process and its record.
	st := store{opts.State}
	_, containers, err := st.load()
	if err != nil {
		t.Fatal(err)
	}
	containers[0].State, containers[0].PID, containers[0].StartedAt = runtimeapi.ContainerState_CONTAINER_CREATED, 0, 0
	if err := st.saveContainer(containers[0]); err != nil {
		t.Fatal(err)
	}
	c, _ = spawn(t, opts)
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_RUNNING || got.StartedAt == 0 {
		t.Errorf("it is %v, want it to run", got)
	}
}

func TestAfterAReboot(t *testing.T) {
	opts := options(t, t.TempDir())
	c, kill := spawn(t, opts)
	sandbox, config := c.sandbox(nil)
	container := c.create(sandbox, config, "registry.example/coredns:v1.14.2")
	if _, err := c.StartContainer(c.ctx, &runtimeapi.StartContainerRequest{ContainerId: container}); err != nil {
		t.Fatal(err)
	}
	kill()
	if err := os.WriteFile(filepath.Join(opts.State, "boot"), []byte("another boot"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, kill = spawn(t, opts)
	st, err := c.PodSandboxStatus(c.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	if err != nil || st.Status.State != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
		t.Errorf("the sandbox is %v, %v; want it not ready", st, err)
	}
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED {
		t.Errorf("the container is %v, want it exited", got)
	}
	// A mere restart changes nothing.
	sandbox, _ = c.sandbox(nil)
	kill()
	c, _ = spawn(t, opts)
	if st, err = c.PodSandboxStatus(c.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox}); err != nil || st.Status.State != runtimeapi.PodSandboxState_SANDBOX_READY {
		t.Errorf("after a restart the sandbox is %v, %v; want it ready", st, err)
	}
}

func TestRecordsThatWereCutShortAreDropped(t *testing.T) {
	dir := t.TempDir()
	opts := options(t, dir)
	for _, path := range []string{"sandboxes/a.json", "containers/b/record.json", "containers/c/other"} {
		path = filepath.Join(opts.State, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"Fields":{"ID`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := serve(t, opts)
	sandboxes, err := c.ListPodSandbox(c.ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil || len(sandboxes.Items) != 0 {
		t.Errorf("sandboxes %v, %v; want none", sandboxes, err)
	}
	if left, _ := filepath.Glob(filepath.Join(opts.State, "containers", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
