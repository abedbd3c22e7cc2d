//go:build linux

package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/run"
)

// running tests what can be done with running pods.
func running(t *testing.T, h *host) {
	text, err := os.ReadFile("testdata/real/running.yaml")
	if err != nil {
		t.Fatal(err)
	}
	h.write("/root/running.yaml", string(text))
	h.must("kubectl", "apply", "-f", "/root/running.yaml")
	t.Run("probes", func(t *testing.T) { probes(t, h) })
	t.Run("a Ready container is a process of its image", func(t *testing.T) {
		waitReady(t, h, "used", "shared", "hooked")
		noneIsHollow(t, h, 4)
	})
	t.Run("exec, attach, logs and ports", func(t *testing.T) { used(t, h) })
	t.Run("ephemeral containers", func(t *testing.T) { ephemeral(t, h) })
	t.Run("shared processes", func(t *testing.T) {
		out := h.must("kubectl", "exec", "shared", "-c", "main", "--", "/pod", "processes")
		if !strings.Contains(out, "/pod wait say=other") || !strings.Contains(out, "process 1 ") {
			t.Errorf("main sees only %q", out)
		}
		out = h.must("kubectl", "exec", "used", "-c", "main", "--", "/pod", "processes")
		if strings.Contains(out, "/pod wait") {
			t.Errorf("a container sees the processes of another, although their pod does not share processes: %q", out)
		}
	})
	t.Run("containers outlive CRI server and kubelet", func(t *testing.T) { adopted(t, h) })
	t.Run("hooks", func(t *testing.T) { hooks(t, h) })
	t.Run("pods come back after a reboot", func(t *testing.T) { rebooted(t, h) })
	t.Run("nothing is left of pods", func(t *testing.T) { deleted(t, h) })
}

// rebooted power-cycles the host: each of its containers must run again, once.
func rebooted(t *testing.T, h *host) {
	before := realProcesses(t, h)
	h.reboot()
	waitFor(t, nodeLimit, "the Node", func() error {
		if _, err := h.try("kubectl", "get", "--raw", "/readyz"); err != nil {
			return err
		}
		return errors.Join(is(h, "used", inPod("main", "restartCount"), "1"),
			is(h, "shared", inPod("other", "restartCount"), "1"))
	})
	waitReady(t, h, "used", "shared")
	noneIsHollow(t, h, 4)
	waitFor(t, podLimit, "one program for each container", func() error {
		now := realProcesses(t, h)
		for name := range before {
			if now[name].container == before[name].container {
				return fmt.Errorf("container %s still has the id from before the reboot", name)
			}
		}
		running, err := runningContainers(h)
		if err != nil {
			return err
		}
		if n, err := programs(h); err != nil || n != running {
			return fmt.Errorf("%d programs of images run in %d containers: %v", n, running, err)
		}
		return nil
	})
}

// runningContainers counts the containers of running pods, Ready or not, except components.
func runningContainers(h *host) (count int, err error) {
	list, err := pods(h)
	for _, p := range list.Items {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running != nil && p.Metadata.Annotations["kubernetes.io/config.mirror"] == "" {
				count++
			}
		}
	}
	return count, err
}

// programs counts the processes of the image's program on a host.
func programs(h *host) (count int, err error) {
	out, err := h.try("/bin/sh", "-c", "for p in /proc/[0-9]*; do readlink $p/exe; done; true")
	for line := range strings.Lines(out) {
		if line == "/pod\n" {
			count++
		}
	}
	return count, err
}

// deleted removes all pods and checks that they leave nothing.
func deleted(t *testing.T, h *host) {
	h.must("kubectl", "delete", "pods,jobs", "--all", "--timeout=60s")
	waitFor(t, podLimit, "nothing to be left", func() error {
		if n, err := programs(h); err != nil || n != 0 {
			return fmt.Errorf("%d programs run: %v", n, err)
		}
		mounts := h.must("cat", "/proc/self/mountinfo")
		for line := range strings.Lines(mounts) {
			if strings.Contains(line, " /var/lib/kubelet/pods/") || strings.Contains(line, "/var/lib/capstan/cri/containers/") {
				return fmt.Errorf("mounted: %s", line)
			}
		}
		const static = 4 // the control plane's static pods
		for _, pattern := range []string{"var/lib/kubelet/pods/*", "var/lib/capstan/cri/pods/*"} {
			if left, _ := filepath.Glob(filepath.Join(h.root, pattern)); len(left) > static {
				return fmt.Errorf("there are %d of %s, want %d", len(left), pattern, static)
			}
		}
		return nil
	})
}

func waitReady(t *testing.T, h *host, names ...string) {
	t.Helper()
	for _, name := range names {
		waitFor(t, podLimit, "pod "+name, func() error {
			return is(h, name, `{.status.conditions[?(@.type=="Ready")].status}`, "True")
		})
	}
}

// inPod returns the value of a field of a container's status.
func inPod(container, field string) string {
	return fmt.Sprintf(`{.status.containerStatuses[?(@.name==%q)].%s}`, container, field)
}

// probes tests probes of all kinds and their effects.
func probes(t *testing.T, h *host) {
	dir := filepath.Join(h.root, "root/probed")
	until := func(what, container, field, want string) {
		t.Helper()
		waitFor(t, podLimit, what, func() error { return is(h, "probed", inPod(container, field), want) })
	}
	until("the grpc probe to succeed", "grpc", "ready", "true")
	until("the start-up probe to succeed", "tcp", "started", "true")
	until("the container without probes to be ready", "http", "ready", "true")
	if err := is(h, "probed", inPod("exec", "ready"), "false"); err != nil {
		t.Error(err)
	}
	h.write("/root/probed/ready", "")
	until("the exec probe to succeed", "exec", "ready", "true")
	if err := os.Remove(filepath.Join(dir, "ready")); err != nil {
		t.Fatal(err)
	}
	until("the exec probe to fail", "exec", "ready", "false")
	if err := is(h, "probed", inPod("http", "restartCount"), "0"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, "live")); err != nil { // the container's hook creates the file again
		t.Fatal(err)
	}
	until("a restart by the http probe", "http", "restartCount", "1")
	until("the container to run again", "http", "ready", "true")
	for _, other := range []string{"exec", "tcp", "grpc"} {
		if err := is(h, "probed", inPod(other, "restartCount"), "0"); err != nil {
			t.Error(err)
		}
	}
}

// process is a container's process, with its id in the host.
type process struct {
	run.Report
	container string
}

// realProcesses returns the processes of all Ready containers except components, by pod and container.
func realProcesses(t *testing.T, h *host) map[string]process {
	t.Helper()
	list, err := pods(h)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]process{}
	for _, p := range list.Items {
		if p.Metadata.Annotations["kubernetes.io/config.mirror"] != "" {
			continue // a component
		}
		for _, c := range p.Status.ContainerStatuses {
			if !c.Ready {
				continue
			}
			id := strings.TrimPrefix(c.ContainerID, "capstan://")
			report, ok, err := run.ReadRunning(filepath.Join(h.root, "var/lib/capstan/cri/containers", id))
			if err != nil || !ok {
				t.Errorf("container %s of pod %s is Ready and has no process: %v", c.Name, p.Metadata.Name, err)
			}
			found[p.Metadata.Name+"/"+c.Name] = process{report, id}
		}
	}
	return found
}

// noneIsHollow fails the test unless each Ready container has a process of its own image in its own namespaces.
func noneIsHollow(t *testing.T, h *host, atLeast int) {
	t.Helper()
	var all map[string]process
	// A restarted kubelet considers a container not Ready until its first probe has succeeded.
	waitFor(t, podLimit, "containers to be Ready", func() error {
		if all = realProcesses(t, h); len(all) < atLeast {
			return fmt.Errorf("%d containers are Ready, want %d at least: %v", len(all), atLeast, all)
		}
		return nil
	})
	for name, p := range all {
		proc := "/proc/" + strconv.Itoa(p.PID)
		out := h.must("/bin/sh", "-c", "readlink "+proc+"/exe; ls "+proc+"/root/; tr '\\0' ' ' <"+proc+"/environ")
		if !strings.HasPrefix(out, "/pod\n") || !strings.Contains(out, "\npod\n") || strings.Contains(out, "\nusr\n") {
			t.Errorf("%s: the program and its root are not those of the image: %q", name, out)
		}
		for _, kind := range []string{"mnt", "pid"} {
			links := h.must("readlink", "/proc/1/ns/"+kind, proc+"/ns/"+kind)
			if host, own, _ := strings.Cut(strings.TrimSpace(links), "\n"); host == own {
				t.Errorf("%s has the host's %s namespace", name, kind)
			}
		}
	}
}

// used tests exec, attach, logs and port-forward with running pods.
func used(t *testing.T, h *host) {
	if out := h.must("kubectl", "exec", "used", "-c", "main", "--", "/pod", "say=executed"); out != "executed\n" {
		t.Errorf("exec: %q", out)
	}
	if _, err := h.try("kubectl", "exec", "used", "-c", "main", "--", "/pod", "exit=xxx"); err == nil ||
		!strings.Contains(err.Error(), "exit code 3") {
		t.Errorf("exec of a failing program: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), podLimit)
	defer cancel()
	attach := h.command(ctx, "kubectl", "attach", "used", "-c", "main", "-i")
	in, err := attach.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out hosttest.Screen
	attach.Stdout = &out
	attach.WaitDelay = time.Second // processes started by nsenter still hold the output
	if err := attach.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "typed\n"); err != nil {
		t.Fatal(err)
	}
	logged := func(line string) {
		t.Helper()
		waitFor(t, podLimit, "the log to have "+line, func() error {
			log, err := h.try("kubectl", "logs", "used", "-c", "main")
			if err == nil && !strings.Contains(log, line+"\n") {
				err = fmt.Errorf("it is %q", log)
			}
			return err
		})
	}
	logged("started")
	logged("got typed")
	waitFor(t, podLimit, "attach to show the answer", func() error {
		if text := out.String(); !strings.Contains(text, "got typed\n") {
			return fmt.Errorf("it shows %q", text)
		}
		return nil
	})
	if err := attach.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	attach.Wait()

	forward := h.command(ctx, "kubectl", "port-forward", "pod/hooked", "18201:18104")
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer forward.Wait()
	defer cancel()
	waitFor(t, podLimit, "an answer through a forwarded port", func() error {
		answer, err := h.get("http://127.0.0.1:18201/")
		if err == nil && answer != "answer\n" {
			err = fmt.Errorf("it is %q", answer)
		}
		return err
	})
}

// ephemeral adds a container to a running pod, and checks that it sees the processes of another container.
func ephemeral(t *testing.T, h *host) {
	h.must("kubectl", "debug", "used", "--image="+podImage, "--image-pull-policy=IfNotPresent", "--target=limited",
		"--container=debugger", "--profile=general", "--attach=false", "--", "/pod", "processes", "exit=xx")
	path := `{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}`
	waitFor(t, podLimit, "the ephemeral container", func() error { return is(h, "used", path, "2") })
	out := h.must("kubectl", "logs", "used", "-c", "debugger")
	if !strings.Contains(out, "process 1 /pod wait") || !strings.Contains(out, "/pod processes exit=xx") {
		t.Errorf("the ephemeral container sees %q", out)
	}
}

// adopted kills the CRI server and the kubelet, and checks that the containers stay the same and usable.
func adopted(t *testing.T, h *host) {
	before := realProcesses(t, h)
	h.kill(t, "cri")
	h.kill(t, "kubelet")
	waitFor(t, nodeLimit, "CRI server and kubelet to run again", func() error {
		if h.process("cri") == 0 || h.process("kubelet") == 0 {
			return errors.New("not yet")
		}
		_, err := h.try("kubectl", "exec", "used", "-c", "limited", "--", "/pod", "say=again")
		return err
	})
	waitFor(t, podLimit, "pods to be as before", func() error {
		now := realProcesses(t, h)
		for name, p := range before {
			if now[name].container != p.container || now[name].PID != p.PID {
				return fmt.Errorf("%s is %v, was %v", name, now[name], p)
			}
		}
		return nil
	})
	noneIsHollow(t, h, len(before))
	// If only the container is killed, it is restarted.
	p := before["used/limited"]
	h.must("kill", "-9", strconv.Itoa(p.PID))
	waitFor(t, podLimit, "a restart", func() error { return is(h, "used", inPod("limited", "restartCount"), "1") })
	path := inPod("limited", "lastState.terminated.exitCode")
	waitFor(t, podLimit, "the exit code", func() error { return is(h, "used", path, "137") })
}

// hooks checks that hooks are executed: postStart before the pod is Ready, preStop before the stop signal.
func hooks(t *testing.T, h *host) {
	dir := filepath.Join(h.root, "root/hooked")
	has := func(names ...string) (err error) {
		for _, name := range names {
			_, missing := os.Stat(filepath.Join(dir, name))
			err = errors.Join(err, missing)
		}
		return err
	}
	if err := has("post-start"); err != nil {
		t.Errorf("after the start: %v", err)
	}
	begin := time.Now()
	h.must("kubectl", "delete", "pod", "hooked", "--timeout=60s")
	if err := has("pre-stop", "http-pre-stop", "term"); err != nil {
		t.Errorf("before the end: %v", err)
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("the pod was gone after %s, before the hook that sleeps had ended", took)
	}
}
