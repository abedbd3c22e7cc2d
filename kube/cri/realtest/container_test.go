//go:build linux

package realtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
)

// facts are some of the properties that the test program prints about its own process.
type facts struct {
	PID, UID, GID int
	Dir, Host     string
	Env           []string
	Status        map[string]string
	Namespaces    map[string]string
	Mounts        []string
	OOMScoreAdj   string
	Terminal      bool
	Rows, Cols    uint16
	Processes     int
}

// sees executes the test program in a container, and returns the facts that this process prints.
func (h *host) sees(container string) (f facts) {
	h.t.Helper()
	resp, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{ContainerId: container, Cmd: []string{"/bin/program",
		"facts"}})
	h.must(err)
	if err := json.Unmarshal(resp.Stdout, &f); err != nil {
		h.t.Fatalf("%v: %s%s", err, resp.Stdout, resp.Stderr)
	}
	return f
}

func TestAContainerRunsFromItsImage(t *testing.T) {
	h := newHost(t)
	container, pod := h.run(func(c *runtimeapi.ContainerConfig) {
		c.Envs = []*runtimeapi.KeyValue{{Key: "BOTH", Value: []byte("pod")}}
	}, "facts", "eat=8", "cat=/etc/resolv.conf", "call=unshare", "call=keyctl", "complain=oops", "term")
	h.logged(container, "stdout F waiting")
	h.logged(container, "stderr F oops")
	_, line, _ := strings.Cut(h.log(container), " stdout F ")
	line, _, _ = strings.Cut(line, "\n")
	var f facts
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		t.Fatalf("%v: %s", err, h.log(container))
	}
	if f.PID != 1 || f.UID != 101 || f.GID != 102 || f.Host != "pod" || f.Dir != "/srv" || f.OOMScoreAdj != "500" ||
		f.Status["Seccomp"] != "2" || f.Status["NoNewPrivs"] != "1" {
		t.Errorf("the program prints wrong facts: %+v", f)
	}
	for _, want := range []string{"FROM=image", "BOTH=pod", "HOSTNAME=pod", "HOME=/srv"} {
		if !slices.Contains(f.Env, want) {
			t.Errorf("environment %q has no %s", f.Env, want)
		}
	}
	for _, want := range []string{"search svc.cluster.local", "nameserver 10.96.0.10", "call unshare EPERM",
		"call keyctl EPERM"} {
		h.logged(container, "stdout F "+want)
	}
	st := h.status(container)
	if st.State != runtimeapi.ContainerState_CONTAINER_RUNNING || st.ImageId != imageID ||
		st.Image.Image != imageName ||
		st.User.GetLinux().GetUid() != 101 || st.User.GetLinux().GetGid() != 102 ||
		!slices.Contains(st.User.GetLinux().GetSupplementalGroups(), 102) {
		t.Errorf("the status of the running container is wrong: %v", st)
	}
	stats, err := h.ContainerStats(h.ctx, &runtimeapi.ContainerStatsRequest{ContainerId: container})
	if set := stats.GetStats().GetMemory().GetWorkingSetBytes().GetValue(); err != nil || set < 8<<20 || set > 32<<20 {
		t.Errorf("the container uses %v, %v; want between 8 and 32 MiB of memory", stats, err)
	}
	if _, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container,
		Timeout: 20}); err != nil {
		t.Fatal(err)
	}
	if st := h.status(container); st.ExitCode != 7 || st.Reason != "Error" || st.FinishedAt < st.StartedAt {
		t.Errorf("the stopped container is %v", st)
	}
	h.logged(container, "stdout F ending")
	_, err = h.RemovePodSandbox(h.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod})
	h.must(err)
}

func TestHowRealContainersEnd(t *testing.T) {
	h := newHost(t)
	cases := map[string]struct {
		args   []string
		stop   bool
		code   int32
		reason string
		text   string
	}{
		"a program with the image's arguments":   {nil, false, 0, "Completed", "stdout F default"},
		"a program that fails":                   {[]string{"exit=42"}, false, 42, "Error", ""},
		"a program that a signal kills":          {[]string{"orphan", "kill=6"}, false, 2, "Error", ""},
		"a program that ignores the stop signal": {[]string{"ignore", "wait"}, true, 137, "Error", ""},
		"a program that leaves a process behind": {[]string{"orphan", "say=x"}, false, 0, "Completed", "stdout F x"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			container, _ := h.run(nil, c.args...)
			if c.stop {
				h.logged(container, "stdout F waiting")
				_, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: 1})
				h.must(err)
			}
			st := h.exited(container)
			if st.ExitCode != c.code || st.Reason != c.reason {
				t.Errorf("the container ended with %d, %s; want %d, %s", st.ExitCode, st.Reason, c.code, c.reason)
			}
			if !strings.Contains(h.log(container), c.text) {
				t.Errorf("the container's log is %q", h.log(container))
			}
		})
	}
}

// TestAFailureForWantOfIDs checks the message about a container that ran as root and failed: on a host with one id, the
// message says that the image has a user. The program may have failed because it could not become this user.
func TestAFailureForWantOfIDs(t *testing.T) {
	h := newHost(t)
	container, _ := h.run(func(c *runtimeapi.ContainerConfig) {
		c.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{}
	}, "exit=1")
	const advice = `the image has user "web"`
	if st := h.exited(container); strings.HasPrefix(st.Message, advice) != hosttest.OneID() {
		t.Errorf("the message is %q", st.Message)
	}
	container, _ = h.run(nil, "exit=1")
	if st := h.exited(container); st.Message != "" {
		t.Errorf("the message of a container that runs as the image's user is %q", st.Message)
	}
}

func TestWhatCannotStart(t *testing.T) {
	h := newHost(t)
	link := filepath.Join(h.dir, "link")
	h.must(os.Symlink("no/such", link))
	cases := map[string]struct {
		change func(*runtimeapi.ContainerConfig)
		want   string
	}{
		"no such program": {func(c *runtimeapi.ContainerConfig) { c.Command = []string{"nothing"} },
			"not found in $PATH"},
		"a mount below a broken link": {func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{HostPath: filepath.Join(link, "x"), ContainerPath: "/x"}}
		}, "is a link to something that does not exist"},
		"a path that the mounted image lacks": {func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{
				ContainerPath: "/x", Image: &runtimeapi.ImageSpec{Image: imageID}, ImageSubPath: "no/such",
			}}
		}, "the image mounted at /x has no no/such"},
		"an unknown capability": {func(c *runtimeapi.ContainerConfig) {
			c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"FLY"}}
		}, "there is no capability CAP_FLY"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			pod, config := h.pod(nil)
			container := h.create(pod, config, c.change)
			_, err := h.StartContainer(h.ctx, &runtimeapi.StartContainerRequest{ContainerId: container})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("starting the container: %v, want an error with %q", err, c.want)
			}
			st := h.status(container)
			if st.State != runtimeapi.ContainerState_CONTAINER_EXITED || st.ExitCode != 128 ||
				st.Reason != "StartError" ||
				!strings.Contains(st.Message, c.want) {
				t.Errorf("the container is %v", st)
			}
		})
	}
}

func TestVolumesAndRights(t *testing.T) {
	h := newHost(t)
	volume := filepath.Join(h.dir, "volume")
	h.must(os.Mkdir(volume, 0o777))
	h.must(os.Chmod(volume, 0o777))
	container, _ := h.run(func(c *runtimeapi.ContainerConfig) {
		c.Mounts = []*runtimeapi.Mount{
			{HostPath: volume, ContainerPath: "/data"}, {HostPath: volume, ContainerPath: "/data/below",
				Readonly: true},
		}
		c.Linux.SecurityContext.ReadonlyRootfs = true
		c.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{Value: 1234}
		c.Linux.SecurityContext.RunAsGroup = &runtimeapi.Int64Value{Value: 4321}
		c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{DropCapabilities: []string{"ALL"},
			AddCapabilities: []string{"NET_RAW"}}
		c.Linux.SecurityContext.MaskedPaths = []string{"/proc/acpi"}
		c.Linux.SecurityContext.ReadonlyPaths = []string{"/proc/sys"}
		c.WorkingDir = "/data"
	}, "write=/data/file", "write=/data/below/file", "write=/file", "write=/proc/sys/kernel/hostname", "wait")
	h.logged(container, "stdout F waiting")
	for _, line := range []string{
		"write /data/file ok", "write /data/below/file EROFS", "write /file EROFS",
		"write /proc/sys/kernel/hostname EROFS",
	} {
		h.logged(container, "stdout F "+line)
	}
	f := h.sees(container)
	if f.UID != 1234 || f.GID != 4321 || f.Dir != "/data" || f.Status["CapBnd"] != "0000000000002000" {
		t.Errorf("the program prints wrong facts: %+v", f)
	}
	var st unix.Stat_t
	h.must(unix.Stat(filepath.Join(volume, "file"), &st))
	if want := uint32(1234); !hosttest.OneID() && st.Uid != want || hosttest.OneID() && st.Uid != 0 {
		t.Errorf("the file belongs to %d", st.Uid)
	}
}

// TestAMissingHostPath mounts a path that the host lacks: it becomes a directory, which stays after the pod is gone.
func TestAMissingHostPath(t *testing.T) {
	h := newHost(t)
	volume := filepath.Join(h.dir, "new/volume")
	mount := func(c *runtimeapi.ContainerConfig) {
		c.Mounts = []*runtimeapi.Mount{{HostPath: volume, ContainerPath: "/data"}}
		c.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{}
	}
	container, pod := h.run(mount, "write=/data/file")
	h.logged(container, "stdout F write /data/file ok")
	_, err := h.RemovePodSandbox(h.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod})
	h.must(err)
	if st, err := os.Stat(volume); err != nil || st.Mode() != os.ModeDir|0o755 {
		t.Errorf("the volume is %v, %v", st, err)
	}
	container, _ = h.run(mount, "list=/data")
	h.logged(container, "stdout F list /data file ok")
}

func TestContainersOfAPod(t *testing.T) {
	h := newHost(t)
	for name, mode := range map[string]runtimeapi.NamespaceMode{
		"a PID namespace for each container": runtimeapi.NamespaceMode_CONTAINER,
		"one PID namespace for the pod":      runtimeapi.NamespaceMode_POD,
	} {
		t.Run(name, func(t *testing.T) {
			pod,
				config := h.pod(func(c *runtimeapi.PodSandboxConfig) { c.Linux.SecurityContext.NamespaceOptions.Pid = mode })
			one, two := h.create(pod, config, nil, "write=/dev/shm/shared", "wait"), h.create(pod, config, nil, "wait")
			h.startContainer(one)
			h.logged(one, "stdout F write /dev/shm/shared ok")
			h.startContainer(two)
			a, b := h.sees(one), h.sees(two)
			for _, ns := range []string{"net", "ipc", "uts"} {
				if own, _ := os.Readlink("/proc/self/ns/" + ns); a.Namespaces[ns] != b.Namespaces[ns] ||
					a.Namespaces[ns] == own {
					t.Errorf("the containers have the %s namespaces %s and %s, want them to share one that is not the "+
						"host's, %s", ns, a.Namespaces[ns], b.Namespaces[ns], own)
				}
			}
			if together := a.Namespaces["pid"] == b.Namespaces["pid"]; together != (mode == runtimeapi.NamespaceMode_POD) {
				t.Errorf("whether the containers share a PID namespace: %v, want the opposite", together)
			}
			resp, err := h.ExecSync(h.ctx, &runtimeapi.ExecSyncRequest{ContainerId: two, Cmd: []string{"/bin/program",
				"cat=/dev/shm/shared"}})
			if err != nil || string(resp.Stdout) != "written" {
				t.Errorf("reading the other container's file in /dev/shm: %v, %v", resp, err)
			}
			// A debugger sees the processes of its target.
			debugger := h.create(pod, config, func(c *runtimeapi.ContainerConfig) {
				c.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{
					Pid: runtimeapi.NamespaceMode_TARGET, TargetId: one,
				}
			}, "wait")
			h.startContainer(debugger)
			if d := h.sees(debugger); d.Namespaces["pid"] != a.Namespaces["pid"] || d.Processes < 2 {
				t.Errorf("the debugger sees %d processes of %s, want those of %s", d.Processes, d.Namespaces["pid"],
					a.Namespaces["pid"])
			}
			_, err = h.StopPodSandbox(h.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod})
			h.must(err)
		})
	}
}

func TestAPodOfTheHost(t *testing.T) {
	h := newHost(t)
	node := runtimeapi.NamespaceMode_NODE
	pod, config := h.pod(func(c *runtimeapi.PodSandboxConfig) {
		c.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Pid: node, Network: node, Ipc: node}
	})
	container := h.create(pod, config, nil, "orphan", "wait")
	h.startContainer(container)
	h.logged(container, "stdout F waiting")
	f := h.sees(container)
	for _, ns := range []string{"pid", "net", "ipc", "uts"} {
		if own, _ := os.Readlink("/proc/self/ns/" + ns); f.Namespaces[ns] != own {
			t.Errorf("the container has the %s namespace %s, want that of the host, %s", ns, f.Namespaces[ns], own)
		}
	}
	// Stopping the container also ends the processes that its program started, even in the PID namespace of the host.
	_, err := h.StopContainer(h.ctx, &runtimeapi.StopContainerRequest{ContainerId: container})
	h.must(err)
}

func TestImagesOfTheStore(t *testing.T) {
	h := newHost(t)
	pull := func(name, password string) error {
		_, err := h.images.PullImage(h.ctx, &runtimeapi.PullImageRequest{
			Image: &runtimeapi.ImageSpec{Image: name}, Auth: &runtimeapi.AuthConfig{Password: password},
		})
		return err
	}
	look := func(name string) *runtimeapi.Image {
		resp, err := h.images.ImageStatus(h.ctx,
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		h.must(err)
		return resp.Image
	}
	if img := look(imageName); img != nil {
		t.Errorf("before the pull the image is %v, want none", img)
	}
	if err := pull("registry.example/other:1", "secret"); status.Code(err) != codes.NotFound ||
		!strings.Contains(err.Error(), "load it") {
		t.Errorf("pulling an image that does not exist: %v", err)
	}
	if err := pull(imageName, "wrong"); err == nil || !strings.Contains(err.Error(), "another credential") {
		t.Errorf("pulling with a wrong password: %v", err)
	}
	h.must(pull(imageName, "secret"))
	if img := look(strings.TrimPrefix(imageID, "sha256:")); img.GetId() != imageID {
		t.Errorf("the image's id without the prefix sha256: refers to the image %v", img)
	}
	if err := removeImage(h, strings.Repeat("0", 64)); err != nil {
		t.Errorf("removing an image that does not exist: %v", err)
	}
	if img := look(imageName); img.GetId() != imageID || img.Username != "web" || img.Uid != nil || img.Size != 1000 {
		t.Errorf("after the pull the image is %v", img)
	}
	if err := pull("registry.example/kube-apiserver:v1.36.3", ""); err != nil {
		t.Errorf("kubeadm's pull of a component: %v", err)
	}
	const proxy = "registry.example/kube-proxy:v1.36.3"
	_, err := h.images.PullImage(h.ctx, &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: proxy}, SandboxConfig: &runtimeapi.PodSandboxConfig{},
	})
	if status.Code(err) != codes.NotFound || look(proxy) != nil {
		t.Errorf("a pod's pull of an image that kubeadm also pulls: %v; the image is %v", err, look(proxy))
	}
	if err := pull(proxy, ""); err != nil || look(proxy) == nil {
		t.Errorf("kubeadm's pull of an image that is not a component: %v; the image is %v", err, look(proxy))
	}
	list, err := h.images.ListImages(h.ctx, &runtimeapi.ListImagesRequest{})
	if err != nil || len(list.Images) != 3 {
		t.Errorf("list: %v, %v; want the image and two that kubeadm pulled", list, err)
	}
	for _, img := range list.GetImages() {
		if !img.Pinned {
			t.Errorf("%v is not pinned, so the kubelet would remove it when the disk is full", img)
		}
	}
	fs, err := h.images.ImageFsInfo(h.ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil || fs.ImageFilesystems[0].UsedBytes.Value != 77 ||
		fs.ImageFilesystems[0].FsId.Mountpoint != "/images" {
		t.Errorf("file systems: %v, %v", fs, err)
	}
	container, pod := h.run(nil, "wait")
	remove := func() error { return removeImage(h, imageID) }
	if err := remove(); err == nil {
		t.Errorf("the image was removed although container %s uses it", container)
	}
	_, err = h.RemovePodSandbox(h.ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod})
	h.must(err)
	h.must(remove())
	if img := look(imageName); img != nil {
		t.Errorf("after the removal the image is %v, want none", img)
	}
}

// TestAnImageVolume checks that a container sees an image that it mounts, and that only pulled images can be mounted.
func TestAnImageVolume(t *testing.T) {
	h := newHost(t)
	pod, config := h.pod(nil)
	mount := func(image, path string) func(*runtimeapi.ContainerConfig) {
		return func(c *runtimeapi.ContainerConfig) {
			c.Mounts = append(c.Mounts, &runtimeapi.Mount{
				Image: &runtimeapi.ImageSpec{Image: image}, ImageSubPath: path, ContainerPath: "/volume",
				Readonly: true,
			})
		}
	}
	container := h.create(pod, config, mount(imageID, "etc"), "cat=/volume/passwd", "write=/volume/new", "wait")
	h.startContainer(container)
	h.logged(container, "stdout F waiting")
	if got := h.log(container); !strings.Contains(got, "F web:x:101") || !strings.Contains(got, "/volume/new EROFS") {
		t.Errorf("the container sees %s", got)
	}
	if mounts := h.status(container).Mounts; len(mounts) != 1 || mounts[0].GetImage().GetImage() != imageID {
		t.Errorf("the container's status has the mounts %v", mounts)
	}
	other := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "other"}, Image: &runtimeapi.ImageSpec{Image: imageID},
	}
	mount("registry.example/none:1", "")(other)
	_, err := h.CreateContainer(h.ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: pod, SandboxConfig: config, Config: other,
	})
	if status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "ImageVolumeMountFailed") {
		t.Errorf("mounting an image that was not pulled: %v", err)
	}
}

func removeImage(h *host, ref string) error {
	_, err := h.images.RemoveImage(h.ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
	return err
}
