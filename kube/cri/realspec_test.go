//go:build linux

package cri

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/images"
	"github.com/capstan-dev/capstan/kube/run"
)

// anImage returns an image with every setting that an image can have.
func anImage() *images.Image {
	img := &images.Image{Layers: []string{"/layers/a", "/layers/b"}}
	img.Config.Config.User = "web"
	img.Config.Config.Env = []string{"PATH=/opt/bin", "A=image"}
	img.Config.Config.Entrypoint = []string{"/entry"}
	img.Config.Config.Cmd = []string{"usual"}
	img.Config.Config.WorkingDir = "/srv"
	return img
}

func TestRealProcess(t *testing.T) {
	cases := map[string]struct {
		config *runtimeapi.ContainerConfig
		args   string
		env    []string
		dir    string
		user   run.User
	}{
		"only the image's settings": {
			&runtimeapi.ContainerConfig{}, "/entry usual", []string{"HOSTNAME=pod", "PATH=/opt/bin", "A=image"}, "/srv",
			run.User{Name: "web"},
		},
		"other arguments": {
			&runtimeapi.ContainerConfig{
				Args: []string{"x"},
			}, "/entry x", []string{"HOSTNAME=pod", "PATH=/opt/bin", "A=image"}, "/srv",
			run.User{Name: "web"},
		},
		"another command": {
			&runtimeapi.ContainerConfig{
				Command: []string{"/other"}, WorkingDir: "/w", Tty: true,
				Envs: []*runtimeapi.KeyValue{{Key: "A", Value: []byte("pod")}},
				Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
					RunAsUser: &runtimeapi.Int64Value{Value: 5}, SupplementalGroups: []int64{6},
					SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
				}},
			}, "/other", []string{"HOSTNAME=pod", "TERM=xterm", "PATH=/opt/bin", "A=pod"}, "/w",
			run.User{UID: new(int64), Groups: []int64{6}, Strict: true},
		},
	}
	*cases["another command"].user.UID = 5
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := realProcess(c.config, anImage(), "pod")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(got.Args, " ") != c.args || !slices.Equal(got.Env, c.env) || got.Dir != c.dir {
				t.Errorf("got %q in %s with the environment %q", got.Args, got.Dir, got.Env)
			}
			if diff := cmp.Diff(c.user, got.User); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRealCapabilities(t *testing.T) {
	cases := map[string]struct {
		privileged    bool
		add, drop     []string
		ambient, want []string // if want is nil, the default capabilities are wanted
	}{
		"the default capabilities": {},
		"one capability dropped": {
			drop: []string{"CAP_MKNOD"},
			want: slices.DeleteFunc(slices.Clone(usualCapabilities), isMknod),
		},
		"all dropped": {drop: []string{"ALL"}, want: []string{}},
		"all dropped and one added": {
			drop: []string{"all"},
			add:  []string{"NET_ADMIN"},
			want: []string{"CAP_NET_ADMIN"},
		},
		"all added":              {add: []string{"ALL"}, want: run.AllCapabilities()},
		"a privileged container": {privileged: true, drop: []string{"ALL"}, want: run.AllCapabilities()},
		"an ambient capability":  {drop: []string{"ALL"}, ambient: []string{"CHOWN"}, want: []string{"CAP_CHOWN"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := realCapabilities(&runtimeapi.LinuxContainerSecurityContext{
				Privileged: c.privileged,
				Capabilities: &runtimeapi.Capability{
					AddCapabilities: c.add, DropCapabilities: c.drop, AddAmbientCapabilities: c.ambient,
				},
			})
			want := c.want
			if want == nil {
				want = usualCapabilities
			}
			if !slices.Equal(got.Bounding, want) || len(got.Ambient) != len(c.ambient) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func isMknod(name string) bool { return name == "CAP_MKNOD" }

func TestRealSpec(t *testing.T) {
	spaces := podSpaces{t.TempDir()}
	for _, name := range []string{"net", "uts", resolvFile, hostnameFile} { // the pod has the host's IPC namespace
		if err := os.WriteFile(spaces.path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pod := &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{Sysctls: map[string]string{"a": "b"}}}
	config := &runtimeapi.ContainerConfig{
		Mounts: []*runtimeapi.Mount{
			{HostPath: "/h/deep", ContainerPath: "/data/deep", Readonly: true, RecursiveReadOnly: true},
			{HostPath: "/h/hosts", ContainerPath: "/etc/hosts"},
			{
				HostPath:      "/h/data",
				ContainerPath: "/data/",
				Propagation:   runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL,
			},
			{HostPath: "/h/resolv", ContainerPath: "/etc/resolv.conf"},
			{Image: &runtimeapi.ImageSpec{Image: "sha256:5"}, ImageSubPath: "share", ContainerPath: "/image"},
		},
		Devices: []*runtimeapi.Device{{HostPath: "/dev/fuse", ContainerPath: "/dev/fuse"}},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			MaskedPaths: []string{"/proc/kcore"}, ReadonlyPaths: []string{"/proc/sys"}, ReadonlyRootfs: true,
		}},
	}
	volumes := volumeImages{"sha256:5": {"/layers/c"}}
	got, err := realSpec(pod, spaces, config, anImage(), volumes, run.New)
	if err != nil {
		t.Fatal(err)
	}
	want := &run.Spec{
		Layers: []string{"/layers/a", "/layers/b"}, ReadOnlyRoot: true,
		Namespaces: run.Namespaces{Net: spaces.path("net"), IPC: run.Host, UTS: spaces.path("uts")},
		Mounts: []run.Mount{
			{Source: "/h/data", Target: "/data", Create: true, Propagation: run.Bidirectional},
			{Source: "share", Target: "/image", Layers: []string{"/layers/c"}, ReadOnly: true},
			{Source: "/h/deep", Target: "/data/deep", Create: true, ReadOnly: true, Recursive: true},
			{Source: spaces.path(hostnameFile), Target: "/etc/hostname"},
			{Source: "/h/hosts", Target: "/etc/hosts", Create: true},
			{Source: "/h/resolv", Target: "/etc/resolv.conf", Create: true},
		},
		Devices: []run.Device{{Source: "/dev/fuse", Target: "/dev/fuse"}},
		Masked:  []string{"/proc/kcore"}, ReadOnly: []string{"/proc/sys"}, Sysctls: map[string]string{"a": "b"},
		Shm: existing("/dev/shm"), Mqueue: existing("/dev/mqueue"),
	}
	got.Process = run.Process{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	config.Linux.SecurityContext.Privileged = true
	got, err = realSpec(pod, spaces, config, anImage(), volumes, run.New)
	if err != nil || got.Masked != nil || got.ReadOnly != nil ||
		!got.AllDevices ||
		!got.WritableSys {
		t.Errorf("a privileged container: %+v, %v", got, err)
	}
}

func TestCheckReal(t *testing.T) {
	one := &runtimeapi.Int64Value{Value: 1}
	as := func(c *runtimeapi.LinuxContainerSecurityContext) *runtimeapi.ContainerConfig {
		return &runtimeapi.ContainerConfig{Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: c}}
	}
	with := func(m *runtimeapi.Mount) *runtimeapi.ContainerConfig {
		return &runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{m}}
	}
	const bidirectional = runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	cases := map[string]struct {
		config *runtimeapi.ContainerConfig
		want   string // empty: accepted
	}{
		"no requests":              {&runtimeapi.ContainerConfig{}, ""},
		"a group without a user":   {as(&runtimeapi.LinuxContainerSecurityContext{RunAsGroup: one}), "runAsUser"},
		"a group with a user":      {as(&runtimeapi.LinuxContainerSecurityContext{RunAsGroup: one, RunAsUser: one}), ""},
		"a group with a user name": {as(&runtimeapi.LinuxContainerSecurityContext{RunAsGroup: one, RunAsUsername: "x"}), ""},
		"read-only submounts only": {with(&runtimeapi.Mount{RecursiveReadOnly: true}), "the mount itself must be read-only"},
		"read-only with submounts": {with(&runtimeapi.Mount{RecursiveReadOnly: true, Readonly: true}), ""},
		"read-only with submounts and propagation": {
			with(&runtimeapi.Mount{RecursiveReadOnly: true, Readonly: true, Propagation: bidirectional}), "have no propagation",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkReal(c.config)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSignalNumber(t *testing.T) {
	cases := map[string]unix.Signal{
		"SIGTERM": unix.SIGTERM, "quit": unix.SIGQUIT, "9": unix.SIGKILL,
		"SIGRTMIN+3": 37, "SIGRTMINPLUS3": 37, "SIGRTMAX-1": 63,
		"SIGRTMAXMINUS1": 63, "SIGRTMIN": 34, "": 0, "SIGNOTHING": 0, "SIGRTMIN+99": 0, "SIGRTMINx": 0, "1000": 0,
	}
	for name, want := range cases {
		if got := signalNumber(name); got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
	}
}

func TestResolvConf(t *testing.T) {
	got := resolvConf(&runtimeapi.DNSConfig{
		Servers: []string{
			"10.0.0.1",
			"not an address\nsearch evil",
		}, Searches: []string{"a", "b"}, Options: []string{"ndots:5"},
	})
	if got != "search a b\nnameserver 10.0.0.1\noptions ndots:5\n" {
		t.Errorf("got %q", got)
	}
	host, _ := os.ReadFile("/etc/resolv.conf")
	if got := resolvConf(nil); got != string(host) {
		t.Errorf("without DNS settings: %q, want the host's", got)
	}
}

func TestFindRunner(t *testing.T) {
	dir := t.TempDir()
	if _, err := findRunner("", filepath.Join(dir, "capstan-kube")); err == nil ||
		!strings.Contains(err.Error(), "--runner") {
		t.Errorf("a missing capstan-run: %v", err)
	}
	beside := filepath.Join(dir, "capstan-run")
	if err := os.WriteFile(beside, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := findRunner("", filepath.Join(dir, "capstan-kube")); err != nil || got != beside {
		t.Errorf("capstan-run next to the binary: %s, %v", got, err)
	}
}
