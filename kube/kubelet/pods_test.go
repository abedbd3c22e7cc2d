package kubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/kube/component"
)

const (
	etcdImage  = "registry.example/etcd:3.6.8-0"
	otherImage = "registry.example/coredns:v1.14.2"
)

func probe(delay, period, threshold int32) *v1.Probe {
	return &v1.Probe{InitialDelaySeconds: delay, PeriodSeconds: period, FailureThreshold: threshold, TimeoutSeconds: 15}
}

func TestRewrite(t *testing.T) {
	full := func(image string) v1.Container {
		return v1.Container{
			Name: "main", Image: image,
			StartupProbe: probe(10, 10, 24), ReadinessProbe: probe(0, 1, 3), LivenessProbe: probe(10, 10, 8),
			Lifecycle:     &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 5}}},
			VolumeMounts:  []v1.VolumeMount{{Name: "data", MountPath: "/data"}},
			VolumeDevices: []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/x"}},
		}
	}
	cases := map[string]struct {
		source    string
		pod, want v1.PodSpec
		ends      string
	}{
		"a component keeps everything and gets a quicker start-up probe": {
			source: kubetypes.FileSource,
			pod: v1.PodSpec{
				Containers: []v1.Container{full(etcdImage)},
				Volumes: []v1.Volume{
					{Name: "data", VolumeSource: v1.VolumeSource{
						HostPath: &v1.HostPathVolumeSource{Path: "/data", Type: ptr.To(v1.HostPathDirectoryOrCreate)},
					}},
				},
			},
			want: func() v1.PodSpec {
				c := full(etcdImage)
				c.StartupProbe = probe(0, 1, 250) // 10 s and 24 times 10 s
				return v1.PodSpec{
					Containers: []v1.Container{c},
					Volumes: []v1.Volume{
						{Name: "data", VolumeSource: v1.VolumeSource{
							HostPath: &v1.HostPathVolumeSource{Path: "/data", Type: ptr.To(v1.HostPathDirectoryOrCreate)},
						}},
					},
				}
			}(),
		},
		"the same image through the API is hollow": {
			source: kubetypes.ApiserverSource,
			pod:    v1.PodSpec{Containers: []v1.Container{full(etcdImage)}},
			want: v1.PodSpec{
				Containers: []v1.Container{
					{Name: "main", Image: etcdImage, VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}},
				},
			},
		},
		"another image from a manifest is hollow": {
			source: kubetypes.FileSource,
			pod:    v1.PodSpec{Containers: []v1.Container{full(otherImage)}},
			want: v1.PodSpec{
				Containers: []v1.Container{
					{Name: "main", Image: otherImage, VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}},
				},
			},
		},
		"volumes of files stay, other volumes and their mounts are removed": {
			source: kubetypes.ApiserverSource,
			pod: v1.PodSpec{
				Containers: []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{
					{Name: "config", MountPath: "/a"}, {Name: "disk", MountPath: "/b"},
					{Name: "config", MountPath: "/c", SubPath: "x"}, {Name: "host", MountPath: "/d"},
				}}},
				Volumes: []v1.Volume{
					{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
					{Name: "disk", VolumeSource: v1.VolumeSource{
						PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "x"},
					}},
					{Name: "host", VolumeSource: v1.VolumeSource{
						HostPath: &v1.HostPathVolumeSource{Path: "/lib/modules", Type: ptr.To(v1.HostPathDirectory)},
					}},
				},
			},
			want: v1.PodSpec{
				Containers: []v1.Container{
					{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "config", MountPath: "/a"}, {Name: "host", MountPath: "/d"}}},
				},
				Volumes: []v1.Volume{
					{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
					{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/lib/modules"}}},
				},
			},
		},
		"init containers end, sidecars do not": {
			source: kubetypes.ApiserverSource,
			pod: v1.PodSpec{
				InitContainers: []v1.Container{{Name: "one"},
					{Name: "sidecar", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}, {Name: "two"}},
				Containers: []v1.Container{{Name: "main"}},
			},
			want: v1.PodSpec{
				InitContainers: []v1.Container{{Name: "one"},
					{Name: "sidecar", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}, {Name: "two"}},
				Containers: []v1.Container{{Name: "main"}},
			},
			ends: "one,two",
		},
		"containers that are not restarted end": {
			source: kubetypes.ApiserverSource,
			pod:    v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "main"}}},
			want:   v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "main"}}},
			ends:   "main",
		},
		"features that the host lacks are removed": {
			source: kubetypes.ApiserverSource,
			pod: v1.PodSpec{
				HostUsers: ptr.To(false),
				SecurityContext: &v1.PodSecurityContext{
					AppArmorProfile: &v1.AppArmorProfile{}, FSGroup: ptr.To[int64](1), RunAsNonRoot: ptr.To(true),
				},
				Containers: []v1.Container{
					{Name: "main", SecurityContext: &v1.SecurityContext{
						AppArmorProfile: &v1.AppArmorProfile{}, RunAsUser: ptr.To[int64](5),
					}},
				},
			},
			want: v1.PodSpec{
				SecurityContext: &v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)},
				Containers:      []v1.Container{{Name: "main", SecurityContext: &v1.SecurityContext{RunAsUser: ptr.To[int64](5)}}},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Annotations: map[string]string{"a": "b"}}, Spec: c.pod}
			before := in.DeepCopy()
			got := rewrite(in, c.source)
			if diff := cmp.Diff(c.want, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if got.Annotations[component.EndsAnnotation] != c.ends || got.Annotations["a"] != "b" {
				t.Errorf("annotations %v, want %q as the containers that end", got.Annotations, c.ends)
			}
			if diff := cmp.Diff(before, in); diff != "" {
				t.Errorf("the given pod was changed:\n%s", diff)
			}
			if diff := cmp.Diff(got, rewrite(got, c.source)); diff != "" && c.source == kubetypes.ApiserverSource {
				t.Errorf("rewriting a second time changes the pod, so the kubelet would see changes:\n%s", diff)
			}
		})
	}
}

func TestRewriteLeavesMirrorPodsAlone(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubetypes.ConfigMirrorAnnotationKey: "hash"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "etcd", Image: etcdImage, StartupProbe: probe(10, 10, 24)}}},
	}
	if diff := cmp.Diff(pod, rewrite(pod, kubetypes.ApiserverSource)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestRewriteDoesNotBelieveAnAnnotationOfThePod(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{component.SourceAnnotation: "file", component.EndsAnnotation: "main"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: etcdImage, StartupProbe: probe(10, 10, 24)}}},
	}
	got := rewrite(pod, kubetypes.ApiserverSource)
	if got.Spec.Containers[0].StartupProbe != nil || got.Annotations[component.EndsAnnotation] != "" {
		t.Errorf("a pod from the API was treated like one from the host's files: %v", got)
	}
}

func TestHasten(t *testing.T) {
	cases := map[string]struct{ in, want *v1.Probe }{
		"no probe":        {nil, nil},
		"kubeadm's probe": {probe(10, 10, 24), probe(0, 1, 250)},
		"only defaults":   {&v1.Probe{}, &v1.Probe{PeriodSeconds: 1, FailureThreshold: 30, TimeoutSeconds: 1}},
		"a fast probe":    {probe(0, 1, 30), probe(0, 1, 30)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			hasten(c.in)
			if diff := cmp.Diff(c.want, c.in); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRewritingPassesUpdatesOn(t *testing.T) {
	out := make(chan struct{ Pods []*v1.Pod }, 1)
	in := rewriting(t.Context(), rewrite, kubetypes.ApiserverSource, out)
	in <- struct {
		Pods []*v1.Pod
	}{[]*v1.Pod{{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", LivenessProbe: probe(1, 1, 1)}}}}}}
	got := <-out
	if len(got.Pods) != 1 || got.Pods[0].Spec.Containers[0].LivenessProbe != nil {
		t.Errorf("got %v", got)
	}
}
