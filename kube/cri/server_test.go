//go:build linux

package cri

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/component"
)

func TestAComponentRunsLogsAndStops(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	container, sandbox := c.component("complain", "run")
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_RUNNING || got.StartedAt == 0 {
		t.Fatalf("a started component is %v", got)
	}
	c.logged(container, "stdout F name etcd") // the name selects the applet
	c.logged(container, "stderr F complaint")
	c.logged(container, "stdout F running")
	c.stop(container, 20)
	got := c.status(container)
	if got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 7 || got.Reason != "Error" ||
		got.FinishedAt < got.StartedAt {
		t.Errorf("a stopped component is %v", got)
	}
	c.logged(container, "stdout F ending") // the log is complete when the end is reported
	c.stop(container, 0)                   // a second call succeeds

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

func TestAStartThatCannotBeRecordedLogs(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	sandbox, config := c.sandbox(static)
	container := c.create(sandbox, config, "registry.example/etcd:3.6.8-0", "etcd", "wait-for-file", "complain", "run")
	obstacle := filepath.Join(c.dir, "state", "containers", container, "record.json.next")
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	start := func() error {
		_, err := c.StartContainer(c.ctx, &runtimeapi.StartContainerRequest{ContainerId: container})
		return err
	}
	if err := start(); err == nil {
		t.Fatal("the container was started without a record")
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := start(); err == nil || !strings.Contains(err.Error(), "was started before") {
		t.Errorf("the second start: %v", err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.logged(container, "stdout F running")
	c.logged(container, "stderr F complaint")
	c.stop(container, 20)
	c.logged(container, "stdout F ending")
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 7 {
		t.Errorf("the stopped container is %v", got)
	}
}

func TestHowComponentsEnd(t *testing.T) {
	cases := map[string]struct {
		args   []string
		stop   bool
		code   int32
		reason string
	}{
		"a component that fails":                     {[]string{"fail"}, false, 3, "Error"},
		"a component that succeeds":                  {nil, false, 0, "Completed"},
		"a component that ignores SIGTERM is killed": {[]string{"ignore-term", "run-for-ever"}, true, 137, "Error"},
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
				t.Errorf("the component ended with %d %s, want %d %s", got.ExitCode, got.Reason, tc.code, tc.reason)
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
		"any image": {"registry.example/coredns:v1.14.2", static,
			runtimeapi.ContainerState_CONTAINER_RUNNING},
		"a component from the API": {"registry.example/etcd:3.6.8-0",
			map[string]string{component.SourceAnnotation: "api"}, runtimeapi.ContainerState_CONTAINER_RUNNING},
		"a container that is meant to end": {"registry.example/busybox", ends, runtimeapi.ContainerState_CONTAINER_EXITED},
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
				t.Errorf("the container is %v, want state %s", got, tc.want)
			}
			c.logged(container, "stdout F This container is hollow: this host runs only control plane components, and "+
				"nothing of "+tc.image+".")
			if _, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{
				ContainerId: container, Cmd: []string{"true"},
			}); status.Code(err) != codes.FailedPrecondition {
				t.Errorf("exec in a hollow container: %v, want FailedPrecondition", err)
			}
			c.stop(container, 0)
			if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 0 {
				t.Errorf("the stopped container is %v", got)
			}
		})
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	sandbox, config := c.sandbox(static)
	_, err := c.CreateContainer(c.ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: "registry.example/kube-apiserver:v1.36.3"},
			Mounts:   []*runtimeapi.Mount{{HostPath: "/etc/audit.yaml", ContainerPath: "/etc/policies/audit.yaml"}},
		}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "/etc/policies/audit.yaml") {
		t.Errorf("a mount at another path: %v, want InvalidArgument and the path", err)
	}
	for name, tc := range map[string]struct{ image, command, want string }{
		"a version without a bundle": {"registry.example/kube-apiserver:v1.12.0", "kube-apiserver",
			"no bundle has kube-apiserver v1.12.0"},
		"another command": {"registry.example/etcd:3.6.8-0", "/bin/sh",
			`command "/bin/sh" is not in this host's image of etcd`},
	} {
		t.Run(name, func(t *testing.T) {
			container := c.create(sandbox, config, tc.image, tc.command)
			_, err := c.StartContainer(c.ctx, &runtimeapi.StartContainerRequest{ContainerId: container})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("starting the container: %v, want an error with %q", err, tc.want)
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
	if _, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container, Cmd: []string{"sleep", "60"}, Timeout: 1,
	}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a command that exceeds its time limit: %v, want DeadlineExceeded", err)
	}
	if _, err := c.ExecSync(c.ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: container, Cmd: []string{"no-such-command"},
	}); status.Code(err) != codes.NotFound {
		t.Errorf("a command that does not exist: %v, want NotFound", err)
	}
}

func TestEvents(t *testing.T) {
	c := serve(t, options(t, t.TempDir()))
	stream, err := c.GetContainerEvents(c.ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// The stream works once an event has arrived.
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
					t.Errorf("an event without the status of the pod and of its container: %v", ev)
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
	if _, err := c.images.RemoveImage(c.ctx, &runtimeapi.RemoveImageRequest{
		Image: &runtimeapi.ImageSpec{Image: ref},
	}); err != nil {
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
		t.Errorf("the service manager was told %q, %v", buf[:n], err)
	}
}
