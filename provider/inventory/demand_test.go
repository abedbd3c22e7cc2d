package inventory

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// server is an API server in memory.
func server(t testing.TB, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		infrav1.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme, corev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func meta(namespace, name string) metav1.ObjectMeta {
	labels := map[string]string{clusterv1.ClusterNameLabel: "demo"}
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

// going marks an object as being deleted.
func going(m metav1.ObjectMeta) metav1.ObjectMeta {
	m.DeletionTimestamp, m.Finalizers = &metav1.Time{Time: now}, []string{"test/hold"}
	return m
}

// class returns a ClusterClass whose machines are of an API group.
func class(group string) *clusterv1.ClusterClass {
	ref := clusterv1.ClusterClassTemplateReference{APIVersion: group + "/v1beta2", Kind: "X", Name: "x"}
	c := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: Home, Name: "class"}}
	c.Spec.ControlPlane.MachineInfrastructure.TemplateRef = ref
	c.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{{
		Class: "worker", Infrastructure: clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: ref},
	}}
	return c
}

// ofClass returns a Cluster with a topology of 1 control plane machine and this many workers.
func ofClass(namespace, name string, workers int32) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "class", Namespace: Home}, Version: "v1.36.3",
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To(int32(1))},
		Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{
			{Class: "worker", Name: "md", Replicas: &workers}}},
	}
	return c
}

func controlPlane(namespace string, replicas int32, surge *intstr.IntOrString) *controlplanev1.KubeadmControlPlane {
	k := &controlplanev1.KubeadmControlPlane{ObjectMeta: meta(namespace, "demo-cp")}
	k.Spec.Replicas = &replicas
	k.Spec.MachineTemplate.Spec.InfrastructureRef.APIGroup = infrav1.GroupVersion.Group
	k.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = surge
	return k
}

func deployment(namespace, name string, replicas int32, surge string) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: meta(namespace, name)}
	md.Spec.ClusterName, md.Spec.Replicas = "demo", &replicas
	md.Spec.Template.Spec.InfrastructureRef.APIGroup = infrav1.GroupVersion.Group
	if surge != "" {
		md.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.Parse(surge))
	}
	return md
}

func TestLook(t *testing.T) {
	home := Demand{Namespace: Home, Asks: true}
	admitted := func(c *clusterv1.Cluster) *clusterv1.Cluster {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "x", Kind: "X", Name: "x"}
		return c
	}
	paused := ofClass("a", "demo", 2)
	paused.Spec.Paused = ptr.To(true)
	other := &clusterv1.Cluster{ObjectMeta: meta("a", "demo")}
	other.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "other.dev", Kind: "X", Name: "x"}
	leaving := ofClass("a", "demo", 2)
	leaving.ObjectMeta = going(leaving.ObjectMeta)
	twoAtOnce := admitted(ofClass("a", "demo", 1))
	twoAtOnce.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: "2"}
	ours := class(infrav1.GroupVersion.Group)
	zoned := ofClass("a", "demo", 2)
	zoned.Spec.Topology.Workers.MachineDeployments[0].FailureDomain = "y"
	inZone := func(capstan, zone string) *clusterv1.Machine { // a control plane machine
		m := &clusterv1.Machine{ObjectMeta: meta("a", "of-"+capstan)}
		m.Labels[clusterv1.MachineControlPlaneLabel] = ""
		m.Spec.ClusterName, m.Spec.FailureDomain = "demo", zone
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: capstan}
		return m
	}
	inZoneX, inZoneY := inZone("m", "x"), inZone("y", "y")
	infrastructure := &infrav1.CapstanCluster{ObjectMeta: meta("a", "x")}
	machine := func(m metav1.ObjectMeta) client.Object { return &infrav1.CapstanMachine{ObjectMeta: m} }
	for name, c := range map[string]struct {
		objects []client.Object
		hosts   []string
		want    []Demand
	}{
		"no objects: home always asks": {nil, nil, []Demand{home}},
		"a Cluster that was just made": {[]client.Object{ours, ofClass("a", "demo", 2)}, nil,
			[]Demand{{Namespace: "a", Asks: true, Wants: 3, Step: 3}, home}},
		"two new Clusters: the smaller one may be first": {[]client.Object{ours, ofClass("a", "demo", 2),
			ofClass("a", "b", 0)}, nil, []Demand{{Namespace: "a", Asks: true, Wants: 4, Step: 1}, home}},
		"a Cluster whose class does not exist": {[]client.Object{ofClass("a", "demo", 2)}, nil,
			[]Demand{{Namespace: "a", Asks: true}, home}},
		"an admitted Cluster that waits for hosts": {[]client.Object{ours, admitted(ofClass("a", "demo", 2)),
			ofClass("a", "next", 4)}, nil, []Demand{{Namespace: "a", Asks: true, Promised: 3, Wants: 8}, home}},
		"a paused Cluster asks, and wants nothing yet": {[]client.Object{ours, paused}, nil,
			[]Demand{{Namespace: "a", Asks: true}, home}},
		"a Cluster of another provider": {[]client.Object{class("other.dev"), ofClass("a", "demo", 2)}, nil,
			[]Demand{home}},
		"a Cluster of another provider, without a topology": {[]client.Object{other}, nil, []Demand{home}},
		"a Cluster that is being deleted":                   {[]client.Object{ours, leaving}, nil, []Demand{home}},
		"a Cluster without a spec": {[]client.Object{&clusterv1.Cluster{ObjectMeta: meta("a", "demo")}}, nil,
			[]Demand{{Namespace: "a", Asks: true}, home}},
		"a CapstanCluster alone": {[]client.Object{infrastructure}, nil, []Demand{{Namespace: "a", Asks: true}, home}},
		"a CapstanMachine alone": {[]client.Object{machine(meta("a", "x"))}, nil,
			[]Demand{{Namespace: "a", Asks: true, Promised: 1, Wants: 1}, home}},
		"a CapstanMachine that is being deleted": {[]client.Object{machine(going(meta("a", "x")))}, nil, []Demand{home}},
		"control plane and workers, with a surge": {[]client.Object{infrastructure, controlPlane("a", 3, nil),
			deployment("a", "md-0", 4, "50%"), deployment("a", "md-1", 3, "1")}, nil,
			[]Demand{{Namespace: "a", Asks: true, Promised: 10, Wants: 10, Surge: 2}, home}},
		"two rollouts at once": {[]client.Object{ours, twoAtOnce, controlPlane("a", 1, nil),
			deployment("a", "md-0", 4, "2"), deployment("a", "md-1", 3, "1"), deployment("a", "md-2", 0, "3")}, nil,
			[]Demand{{Namespace: "a", Asks: true, Promised: 8, Wants: 8, Surge: 3}, home}},
		"machines that can be in one zone only": {[]client.Object{ours, zoned, inZoneX, inZoneY,
			&infrav1.CapstanMachine{ObjectMeta: meta("a", "m")}, &infrav1.CapstanMachine{ObjectMeta: meta("a", "y")}},
			[]string{"a/host-01 x claimed"}, []Demand{{Namespace: "a", Asks: true, Promised: 3, Wants: 3,
				Zones: map[string]int{"y": 3}}, home}},
		"a surge of 0": {[]client.Object{ours, admitted(ofClass("a", "demo", 0)),
			controlPlane("a", 1, ptr.To(intstr.FromInt32(0)))}, nil,
			[]Demand{{Namespace: "a", Asks: true, Promised: 1, Wants: 1}, home}},
		"hosts that serve no live machine count as wanted, too": {
			[]client.Object{machine(meta("a", "x"))}, []string{"a/host-01 x claimed", "a/host-02 x off"},
			[]Demand{{Namespace: "a", Asks: true, Promised: 3, Wants: 3}, home}},
		"a namespace in which hosts have enrolled asks for no others": {
			[]client.Object{ours, ofClass("a", "demo", 2)}, []string{"a/rack x owned"},
			[]Demand{{Namespace: "a", Wants: 3, Step: 3}, home}},
		"hosts that have enrolled in home change nothing": {nil, []string{"default/rack x owned"}, []Demand{home}},
		"a namespace that is being deleted asks for nothing": {
			[]client.Object{ours, ofClass("a", "demo", 2), &corev1.Namespace{ObjectMeta: going(metav1.ObjectMeta{Name: "a"})}},
			nil, []Demand{{Namespace: "a", Wants: 3, Step: 3}, home}},
	} {
		t.Run(name, func(t *testing.T) {
			var hosts []infrav1.CapstanHost
			for _, text := range c.hosts {
				hosts = append(hosts, at(t, text))
			}
			got, err := Look(t.Context(), server(t, c.objects...), hosts)
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("got %+v, %v\nwant %+v", got, err, c.want)
			}
			for i := range got {
				if !reflect.DeepEqual(got[i], c.want[i]) {
					t.Errorf("got  %+v\nwant %+v", got[i], c.want[i])
				}
			}
		})
	}
}

// TestLookSaysWhatItCantRead checks the error for each list and for the class.
func TestLookSaysWhatItCantRead(t *testing.T) {
	for fail := 1; ; fail++ {
		calls := 0
		one := func() error {
			if calls++; calls == fail {
				return errors.New("no answer")
			}
			return nil
		}
		c := interceptor.NewClient(server(t, class(infrav1.GroupVersion.Group), ofClass("a", "demo", 2)), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				return errors.Join(one(), c.List(ctx, list, o...))
			},
			Get: func(
				ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption,
			) error {
				return errors.Join(one(), c.Get(ctx, k, o, opts...))
			},
		})
		_, err := Look(t.Context(), c, nil)
		if err == nil {
			if calls != 8 {
				t.Errorf("%d calls, want 8", calls)
			}
			return
		}
		if !strings.Contains(err.Error(), "ing ") || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("call %d: %v", fail, err)
		}
	}
}
