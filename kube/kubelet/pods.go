package kubelet

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/capstan-dev/capstan/kube/component"
)

// rewriter returns a copy of a pod from a source, changed for this kubelet.
type rewriter func(pod *v1.Pod, source string) *v1.Pod

// hastenComponents returns the pod for a kubelet of real pods: components get a quicker start-up probe.
func hastenComponents(pod *v1.Pod, source string) *v1.Pod {
	pod = pod.DeepCopy()
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if _, runs := component.Runs(c.Image, map[string]string{component.SourceAnnotation: source}); runs {
			hasten(c.StartupProbe)
		}
	}
	return pod
}

// rewrite returns a copy of the pod for a kubelet of hollow pods; the API's object stays unchanged. A container that
// runs for real keeps everything and gets a quicker start-up probe. A hollow one loses what could only fail: probes,
// lifecycle hooks, volumes that need mounts, and what a container runtime would have to support.
func rewrite(pod *v1.Pod, source string) *v1.Pod {
	pod = pod.DeepCopy()
	if kubetypes.IsMirrorPod(pod) {
		return pod // it is only the mirror of a static pod
	}
	annotations := maps.Clone(pod.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, component.EndsAnnotation)
	asSeen := map[string]string{component.SourceAnnotation: source}

	ends := pod.Spec.RestartPolicy == v1.RestartPolicyNever || pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure
	var ending []string
	hollowPod := true
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		if !sidecar {
			ending = append(ending, c.Name)
		}
		hollowContainer(c)
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if _, runs := component.Runs(c.Image, asSeen); runs {
			hollowPod = false
			hasten(c.StartupProbe)
			continue
		}
		if ends {
			ending = append(ending, c.Name)
		}
		hollowContainer(c)
	}
	if hollowPod {
		hollowSpec(&pod.Spec)
	}
	if len(ending) > 0 {
		annotations[component.EndsAnnotation] = strings.Join(ending, ",")
	}
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix)
	})
	pod.Annotations = annotations
	return pod
}

// hasten makes a start-up probe run at once and then every second, within the same total time. kubeadm's probes run
// every 10 seconds and start after 10 seconds, which is most of a control plane's start-up time here.
func hasten(p *v1.Probe) {
	if p == nil {
		return
	}
	period := max(p.PeriodSeconds, 1)
	if p.PeriodSeconds == 0 {
		period = 10 // the API's default
	}
	threshold := p.FailureThreshold
	if threshold == 0 {
		threshold = 3 // the API's default
	}
	p.FailureThreshold = p.InitialDelaySeconds + period*threshold
	p.InitialDelaySeconds = 0
	p.PeriodSeconds = 1
	p.TimeoutSeconds = max(p.TimeoutSeconds, 1)
}

// hollowContainer removes what needs a process, a mount or a kernel feature. It keeps the environment and volumes of
// files, so that a hollow host, too, detects references to missing Secrets and ConfigMaps.
func hollowContainer(c *v1.Container) {
	c.StartupProbe, c.ReadinessProbe, c.LivenessProbe, c.Lifecycle = nil, nil, nil, nil
	c.VolumeDevices = nil
	if sc := c.SecurityContext; sc != nil {
		sc.AppArmorProfile = nil
		sc.SELinuxOptions = nil
		sc.ProcMount = nil
	}
	// Without a process, the message can only come from the log.
	c.TerminationMessagePath = ""
}

// hollowSpec does for the pod as a whole what hollowContainer does for a container.
func hollowSpec(spec *v1.PodSpec) {
	if sc := spec.SecurityContext; sc != nil {
		sc.AppArmorProfile = nil
		sc.SELinuxOptions = nil
		sc.FSGroup = nil // rootless hosts can't change the owner of files, and no process reads a hollow pod's files
	}
	spec.HostUsers = nil

	gone := map[string]bool{}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v v1.Volume) bool {
		gone[v.Name] = !files(v)
		return gone[v.Name]
	})
	for i := range spec.Volumes {
		if host := spec.Volumes[i].HostPath; host != nil {
			host.Type = nil // so that the kubelet checks and creates nothing on the host
		}
	}
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i].VolumeMounts = slices.DeleteFunc(list[i].VolumeMounts, func(m v1.VolumeMount) bool {
				return gone[m.Name] || m.SubPath != "" || m.SubPathExpr != ""
			})
		}
	}
}

// files reports whether the kubelet itself creates the volume from files.
func files(v v1.Volume) bool {
	return v.EmptyDir != nil || v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil ||
		v.HostPath != nil
}
