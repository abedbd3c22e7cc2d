//go:build linux

package realtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/run"
)

// addBundle adds a bundle next to the server's own bundle.
func (h *host) addBundle() {
	h.t.Helper()
	dir := filepath.Join(h.dir, "bundles", "v1.35.4")
	h.must(os.MkdirAll(dir, 0o755))
	binary, err := os.ReadFile(hosttest.Tool("bundle"))
	h.must(err)
	h.must(os.WriteFile(filepath.Join(dir, "capstan-kube"), binary, 0o755))
}

// image returns an image, or nil.
func (h *host) image(ref string) *runtimeapi.Image {
	h.t.Helper()
	resp, err := h.images.ImageStatus(h.ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	h.must(err)
	return resp.Image
}

func TestAddOnsComeFromTheBundle(t *testing.T) {
	h := newHost(t)
	h.addBundle()
	for _, ref := range []string{"r.example/coredns/coredns:v0.0.1", "r.example/pause:1", "r.example/other:v1.14.2"} {
		if img := h.image(ref); img != nil {
			t.Errorf("the image %s, which is not in the bundle, exists: %v", ref, img)
		}
	}
	const dns = "r.example/coredns/coredns:v1.14.2"
	img := h.image(dns)
	if img == nil || img.Uid.GetValue() != 65532 {
		t.Fatalf("the image of CoreDNS is %v, want one with the user 65532", img)
	}
	container, _ := h.run(func(c *runtimeapi.ContainerConfig) {
		c.Image = &runtimeapi.ImageSpec{Image: img.Id, UserSpecifiedImage: dns}
		security := c.Linux.SecurityContext
		security.ReadonlyRootfs = true
		security.Capabilities = &runtimeapi.Capability{
			AddCapabilities: []string{"NET_BIND_SERVICE"}, DropCapabilities: []string{"ALL"},
		}
	}, "-conf", "/etc/coredns/Corefile")
	h.logged(container, "stdout F pid 1 user 65532 65532 in / called /coredns -conf /etc/coredns/Corefile")
	h.logged(container, "stdout F the host's root is not here: true")
	if log := h.log(container); strings.Contains(log, "listen") {
		t.Errorf("CoreDNS can't listen: %s", log)
	}
	if st := h.status(container); st.Image.Image != dns || st.ImageId != img.Id {
		t.Errorf("the status of CoreDNS's container is wrong: %v", st)
	}
}

func TestPauseEndsByItsSignal(t *testing.T) {
	h := newHost(t)
	h.addBundle()
	img := h.image("r.example/pause:3.10.2")
	container, _ := h.run(func(c *runtimeapi.ContainerConfig) {
		c.Image = &runtimeapi.ImageSpec{Image: img.Id}
	})
	if st := h.status(container); st.State != runtimeapi.ContainerState_CONTAINER_RUNNING ||
		st.User.GetLinux().GetUid() != 65535 {
		t.Errorf("the pause container is %v", st)
	}
	report, _, err := run.ReadRunning(filepath.Join(h.dir, "state", "containers", container))
	h.must(err)
	h.waitFor("pause to wait for the signal", func() bool { return ignores(report.PID, unix.SIGHUP) })
	_, err = h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: 20})
	h.must(err)
	if st := h.exited(container); st.ExitCode != 0 {
		t.Errorf("pause ended with exit code %d", st.ExitCode)
	}
}

// ignores reports whether a process ignores a signal.
func ignores(pid int, signal unix.Signal) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // empty if it has ended
	_, mask, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ = strings.Cut(mask, "\n")
	ignored, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && ignored&(1<<(signal-1)) != 0
}
