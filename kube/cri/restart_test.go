//go:build linux

package cri

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/process"
)

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

// spawn runs a server in its own process; kill sends it SIGKILL.
func spawn(t *testing.T, opts Options) (c *client, kill func()) {
	t.Helper()
	dir := filepath.Dir(opts.State)
	path := filepath.Join(dir, "sock")
	cmd := exec.Command(opts.Bundles.Own, "--state", opts.State, "--listen", "unix://"+path, "--hollow",
		"--listen-hollow=", "--listen-real=",
		"--bundles", opts.Bundles.Dir,
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
	// While no server reads its output, the component keeps running.
	if err := os.WriteFile(filepath.Join(c.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ = spawn(t, opts)
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
		t.Fatalf("after the kill of the server, the component is %v", got)
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
		t.Error("a running container was started again")
	}
	c.stop(container, 20)
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != 7 {
		t.Errorf("the stopped component is %v, want exit code 7", got)
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
	if got := c.status(container); got.State != runtimeapi.ContainerState_CONTAINER_EXITED ||
		got.ExitCode != process.CodeUnknown || got.Reason != "Unknown" {
		t.Errorf("the component is %v, want it exited with an unknown exit code", got)
	}
}

func TestAStrayProcessIsEnded(t *testing.T) {
	opts := options(t, t.TempDir())
	c, kill := spawn(t, opts)
	container, _ := c.component("run-for-ever")
	c.logged(container, "stdout F running")
	kill()
	// The state after a crash between the removal of the record and the end of the process.
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
	// The state after a crash between the start of the process and its record.
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
		t.Errorf("the component is %v, want it running", got)
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
	// If the server restarts without a reboot, a sandbox stays ready.
	sandbox, _ = c.sandbox(nil)
	kill()
	c, _ = spawn(t, opts)
	if st, err = c.PodSandboxStatus(c.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox}); err != nil ||
		st.Status.State != runtimeapi.PodSandboxState_SANDBOX_READY {
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
