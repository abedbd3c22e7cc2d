package cri

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/capstan-dev/capstan/kube/cri/images"
	"github.com/capstan-dev/capstan/kube/cri/seccomp"
	"github.com/capstan-dev/capstan/kube/run"
)

// usualCapabilities are a container's default capabilities, as in other runtimes.
var usualCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETFCAP",
	"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// realSpec translates the kubelet's request, with defaults from the image. volumes are the images to mount, and pid is
// the PID namespace to join.
func realSpec(pod *runtimeapi.PodSandboxConfig, spaces podSpaces, config *runtimeapi.ContainerConfig, img *images.Image,
	volumes volumeImages, pid string,
) (*run.Spec, error) {
	security := config.GetLinux().GetSecurityContext()
	spec := &run.Spec{
		Layers:       img.Layers,
		ReadOnlyRoot: security.GetReadonlyRootfs(),
		Namespaces: run.Namespaces{
			PID: pid, Net: spaces.namespace("net", run.Host), IPC: spaces.namespace("ipc", run.Host),
			UTS: spaces.namespace("uts", run.Host),
		},
		AllDevices:  security.GetPrivileged(),
		WritableSys: security.GetPrivileged(),
		Sysctls:     pod.GetLinux().GetSysctls(),
	}
	if spec.Namespaces.IPC != run.Host {
		spec.Shm, spec.Mqueue = spaces.path(shmName), spaces.path(mqueueName)
	} else {
		spec.Shm, spec.Mqueue = existing("/dev/shm"), existing("/dev/mqueue")
	}
	if !security.GetPrivileged() {
		spec.Masked, spec.ReadOnly = security.GetMaskedPaths(), security.GetReadonlyPaths()
	}
	for _, d := range config.Devices {
		spec.Devices = append(spec.Devices, run.Device{Source: d.HostPath, Target: d.ContainerPath})
	}
	var err error
	if spec.Mounts, err = realMounts(spaces, config.Mounts, volumes); err != nil {
		return nil, err
	}
	if spec.Process, err = realProcess(config, img, pod.GetHostname()); err != nil {
		return nil, err
	}
	return spec, nil
}

// existing returns a directory of the host if it exists, or "".
func existing(dir string) string {
	if _, err := os.Stat(dir); err != nil {
		return ""
	}
	return dir
}

// realMounts returns the kubelet's mounts, and the pod's own files where the kubelet mounts none. Outer directories
// come first. As with other runtimes, a path that the host lacks becomes a directory: manifests rely on that for
// hostPath volumes without a type.
func realMounts(spaces podSpaces, asked []*runtimeapi.Mount, volumes volumeImages) ([]run.Mount, error) {
	var mounts []run.Mount
	taken := map[string]bool{}
	for _, m := range asked {
		if len(m.UidMappings)+len(m.GidMappings) > 0 {
			return nil,
				fmt.Errorf("the mount at %s asks for ids of its own: pods with hostUsers: false are not supported",
					m.ContainerPath)
		}
		propagation := map[runtimeapi.MountPropagation]run.Propagation{
			runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER: run.HostToContainer,
			runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:     run.Bidirectional,
		}[m.Propagation]
		target := path.Clean("/" + m.ContainerPath)
		taken[target] = true
		if ref := m.GetImage().GetImage(); ref != "" {
			mounts = append(mounts, run.Mount{
				Source: m.ImageSubPath, Target: target, Layers: volumes[ref], ReadOnly: true,
			})
			continue
		}
		mounts = append(mounts, run.Mount{
			Source: m.HostPath, Target: target, ReadOnly: m.Readonly, Recursive: m.RecursiveReadOnly,
			Propagation: propagation, Create: true,
		})
	}
	for target, name := range map[string]string{"/etc/hostname": hostnameFile, "/etc/resolv.conf": resolvFile} {
		if file := existing(spaces.path(name)); file != "" && !taken[target] {
			mounts = append(mounts, run.Mount{Source: file, Target: target})
		}
	}
	slices.SortStableFunc(mounts, func(a, b run.Mount) int {
		return cmp.Or(strings.Count(a.Target, "/")-strings.Count(b.Target, "/"), strings.Compare(a.Target, b.Target))
	})
	return mounts, nil
}

// realProcess returns the container's program.
func realProcess(config *runtimeapi.ContainerConfig, img *images.Image, hostname string) (run.Process, error) {
	linux := config.GetLinux()
	security := linux.GetSecurityContext()
	of := img.Config.Config
	p := run.Process{
		Args:            realArgs(config, img),
		Env:             realEnv(config, img, hostname),
		Dir:             cmp.Or(config.WorkingDir, of.WorkingDir),
		User:            realUser(security, of.User),
		Terminal:        config.Tty,
		Stdin:           config.Stdin,
		NoNewPrivileges: security.GetNoNewPrivs(),
	}
	if resources := linux.GetResources(); resources != nil {
		score := int(resources.OomScoreAdj)
		p.OOMScoreAdj = &score
	}
	p.Capabilities = realCapabilities(security)
	var err error
	p.Seccomp, err = realFilter(security, p.Capabilities.Bounding)
	return p, err
}

// realArgs returns the command line. If the container specifies a command, that command and the container's arguments
// replace the image's entry point and arguments. If it specifies only arguments, they follow the image's entry point.
func realArgs(config *runtimeapi.ContainerConfig, img *images.Image) []string {
	of := img.Config.Config
	switch {
	case len(config.Command) > 0:
		return slices.Concat(config.Command, config.Args)
	case len(config.Args) > 0:
		return slices.Concat(of.Entrypoint, config.Args)
	}
	return slices.Concat(of.Entrypoint, of.Cmd)
}

// realEnv returns the image's environment merged with the container's, which takes precedence.
func realEnv(config *runtimeapi.ContainerConfig, img *images.Image, hostname string) []string {
	env := []string{defaultPath}
	if hostname != "" {
		env = append(env, "HOSTNAME="+hostname)
	}
	if config.Tty {
		env = append(env, "TERM=xterm")
	}
	set := func(entry string) {
		name, _, _ := strings.Cut(entry, "=")
		env = slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") })
		env = append(env, entry)
	}
	for _, entry := range img.Config.Config.Env {
		set(entry)
	}
	for _, e := range config.Envs {
		set(e.Key + "=" + string(e.Value)) // bytes since v1.36, a string before
	}
	return env
}

// realUser returns the user that the container, or else the image, specifies.
func realUser(security *runtimeapi.LinuxContainerSecurityContext, image string) run.User {
	u := run.User{Name: image, Groups: security.GetSupplementalGroups()}
	u.Strict = security.GetSupplementalGroupsPolicy() == runtimeapi.SupplementalGroupsPolicy_Strict
	if name := security.GetRunAsUsername(); name != "" {
		u.Name = name
	}
	if uid := security.GetRunAsUser(); uid != nil {
		u.Name, u.UID = "", &uid.Value
	}
	if gid := security.GetRunAsGroup(); gid != nil {
		u.GID = &gid.Value
	}
	return u
}

// realCapabilities returns the usual capabilities with the container's changes. A privileged container gets all.
func realCapabilities(security *runtimeapi.LinuxContainerSecurityContext) run.Capabilities {
	if security.GetPrivileged() {
		return run.Capabilities{Bounding: run.AllCapabilities()}
	}
	asked := security.GetCapabilities()
	drop, add := capabilityNames(asked.GetDropCapabilities()), capabilityNames(asked.GetAddCapabilities())
	ambient := capabilityNames(asked.GetAddAmbientCapabilities())
	keep := slices.Clone(usualCapabilities)
	if slices.Contains(add, "CAP_ALL") {
		keep = run.AllCapabilities()
	}
	if slices.Contains(drop, "CAP_ALL") {
		keep = nil
	}
	keep = slices.DeleteFunc(keep, func(name string) bool { return slices.Contains(drop, name) })
	for _, name := range slices.Concat(add, ambient) {
		if name != "CAP_ALL" && !slices.Contains(keep, name) {
			keep = append(keep, name)
		}
	}
	return run.Capabilities{Bounding: keep, Ambient: ambient}
}

// capabilityNames returns names as in the kernel's headers: the kubelet omits the prefix.
func capabilityNames(names []string) []string {
	var full []string
	for _, name := range names {
		name = strings.ToUpper(name)
		if !strings.HasPrefix(name, "CAP_") {
			name = "CAP_" + name
		}
		full = append(full, name)
	}
	return full
}

// realFilter returns the container's system call filter.
func realFilter(security *runtimeapi.LinuxContainerSecurityContext, capabilities []string) ([]byte, error) {
	profile := security.GetSeccomp()
	if profile == nil || security.GetPrivileged() {
		return nil, nil
	}
	switch profile.ProfileType {
	case runtimeapi.SecurityProfile_RuntimeDefault:
		return seccomp.RuntimeDefault(capabilities)
	case runtimeapi.SecurityProfile_Localhost:
		text, err := os.ReadFile(profile.LocalhostRef)
		if err != nil {
			return nil, fmt.Errorf("reading the seccomp profile of the host: %w", err)
		}
		return seccomp.Profile(text, capabilities)
	case runtimeapi.SecurityProfile_Unconfined:
	}
	return nil, nil
}
