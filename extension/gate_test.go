package extension

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/capacity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a management cluster in memory: it lists in pages of two, and fails on request.
type world struct {
	mu       sync.Mutex
	hosts    []infrav1.CapstanHost
	clusters []clusterv1.Cluster
	machines []clusterv1.Machine
	// deployments and controlPlane are what grows during an upgrade.
	deployments  []clusterv1.MachineDeployment
	controlPlane *unstructured.Unstructured
	addOns       []corev1.ConfigMap
	kubeconfigs  map[string][]byte // by namespace/name of the Secret
	classes      map[string]*clusterv1.ClusterClass
	fail         map[string]error // by kind of list or object
}

func (w *world) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if secret, is := object.(*corev1.Secret); is {
		if data, ok := w.kubeconfigs[key.String()]; ok && w.fail["Secret"] == nil {
			secret.Data = map[string][]byte{"value": data}
			return nil
		}
		return cmp.Or(w.fail["Secret"], error(apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)))
	}
	if controlPlane, is := object.(*unstructured.Unstructured); is {
		if w.controlPlane == nil || w.fail["ControlPlane"] != nil {
			return cmp.Or(w.fail["ControlPlane"], error(apierrors.NewNotFound(schema.GroupResource{Resource: "kubeadmcontrolplanes"}, key.Name)))
		}
		w.controlPlane.DeepCopyInto(controlPlane)
		return nil
	}
	if err := w.fail["ClusterClass"]; err != nil {
		return err
	}
	class, ok := w.classes[key.String()]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "clusterclasses"}, key.Name)
	}
	class.DeepCopyInto(object.(*clusterv1.ClusterClass))
	return nil
}

func (w *world) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Limit == 0 {
		return errors.New("a list without a limit")
	}
	switch l := list.(type) {
	case *infrav1.CapstanHostList:
		return page(w, "CapstanHost", w.hosts, options, &l.ListMeta, &l.Items, func(h infrav1.CapstanHost) string { return h.Namespace })
	case *clusterv1.ClusterList:
		return page(w, "Cluster", w.clusters, options, &l.ListMeta, &l.Items, func(c clusterv1.Cluster) string { return c.Namespace })
	case *corev1.ConfigMapList:
		if !options.LabelSelector.Matches(labels.Set{addon.Label: "any"}) || options.LabelSelector.Matches(labels.Set{}) {
			return errors.New("a list of ConfigMaps that are no add-ons")
		}
		return page(w, "ConfigMap", w.addOns, &client.ListOptions{Namespace: options.Namespace}, &l.ListMeta, &l.Items, func(c corev1.ConfigMap) string { return c.Namespace })
	case *clusterv1.MachineDeploymentList:
		return page(w, "MachineDeployment", w.deployments, options, &l.ListMeta, &l.Items, func(d clusterv1.MachineDeployment) string { return d.Namespace })
	case *clusterv1.MachineList:
		return page(w, "Machine", w.machines, options, &l.ListMeta, &l.Items, func(m clusterv1.Machine) string { return m.Namespace })
	}
	return fmt.Errorf("nobody has %T", list)
}

func page[T any](w *world, kind string, all []T, options *client.ListOptions, list *metav1.ListMeta, items *[]T, namespace func(T) string) error {
	if err := w.fail[kind]; err != nil {
		return err
	}
	start := 0
	if options.Continue != "" {
		if _, err := fmt.Sscan(options.Continue, &start); err != nil {
			return err
		}
	}
	var found []T
	for _, item := range all {
		if namespace(item) == options.Namespace {
			found = append(found, item)
		}
	}
	end := min(start+2, len(found))
	*items = found[min(start, end):end]
	if end < len(found) {
		list.Continue = fmt.Sprint(end)
	}
	return nil
}

func newWorld(hosts int) *world {
	w := &world{classes: map[string]*clusterv1.ClusterClass{
		"default/local": class(infrav1.GroupVersion.String()),
		"default/cloud": class("infrastructure.example.org/v1"),
	}, fail: map[string]error{}}
	for i := range hosts {
		w.hosts = append(w.hosts, infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("host-%d", i)},
			Spec:       infrav1.CapstanHostSpec{Zone: "zone-a"},
			Status:     infrav1.CapstanHostStatus{Phase: infrav1.HostOff},
		})
	}
	return w
}

func class(templates string) *clusterv1.ClusterClass {
	template := clusterv1.ClusterClassTemplateReference{APIVersion: templates, Kind: "Template", Name: "t"}
	c := &clusterv1.ClusterClass{}
	c.Spec.ControlPlane.MachineInfrastructure.TemplateRef = template
	c.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{
		{Class: "worker", Infrastructure: clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: template}},
		{Class: "zoned", FailureDomain: "zone-b", Infrastructure: clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: template}},
	}
	c.Spec.Workers.MachinePools = []clusterv1.MachinePoolClass{
		{Class: "pool", FailureDomains: []string{"zone-a", "zone-b"}, Infrastructure: clusterv1.MachinePoolClassInfrastructureTemplate{TemplateRef: template}},
	}
	return c
}

var created = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

func newCluster(name string, controlPlane, workers int32) clusterv1.Cluster {
	c := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid of " + name), CreationTimestamp: metav1.NewTime(created),
	}}
	c.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "local"}, Version: "v1.36.3",
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: &controlPlane},
		Workers:      clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{{Class: "worker", Name: "md-0", Replicas: &workers}}},
	}
	return c
}

// ask calls the gate as Cluster API does. It gives the message, with "passes: " or "waits: " before it.
func ask(t *testing.T, g *Gate, cluster clusterv1.Cluster) string {
	t.Helper()
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	err := g.BeforeClusterCreate(t.Context(), &runtimehooksv1.BeforeClusterCreateRequest{Cluster: cluster}, response)
	if err == nil {
		return "passes: " + response.Message
	}
	return err.Error()
}

func TestGate(t *testing.T) {
	for name, c := range map[string]struct {
		hosts  int
		change func(*world)
		mine   func(*clusterv1.Cluster)
		want   string
	}{
		"enough hosts":  {8, nil, nil, "passes: cluster needs 3 hosts, 8 of 8 are free"},
		"too few hosts": {2, nil, nil, "wait 5s: cluster needs 3 hosts, 2 of 2 are free: add hosts, or make the cluster smaller"},
		"hosts of another namespace do not count": {0, func(w *world) {
			w.hosts = newWorld(8).hosts
			for i := range w.hosts {
				w.hosts[i].Namespace = "other"
			}
		}, nil, "wait 5s: cluster needs 3 hosts, there are none: add hosts, or make the cluster smaller"},
		"a class of another provider is not ours": {0, nil, func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "cloud" }, "passes: "},
		"a class that does not exist":             {8, nil, func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = "gone" }, "reading ClusterClass default/gone: it does not exist"},
		"a zone of the class": {8, nil, func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachineDeployments[0].Class = "zoned" },
			"wait 5s: cluster needs 2 hosts in zone-b, there are none: add hosts there, or change the failure domains"},
		"a zone of the cluster wins over the class's": {8, nil, func(c *clusterv1.Cluster) {
			md := &c.Spec.Topology.Workers.MachineDeployments[0]
			md.Class, md.FailureDomain = "zoned", "zone-a"
		}, "passes: cluster needs 3 hosts, 8 of 8 are free"},
		"replicas that nobody wrote": {8, nil, func(c *clusterv1.Cluster) {
			c.Spec.Topology.ControlPlane.Replicas = nil
			c.Spec.Topology.Workers.MachineDeployments[0].Replicas = nil
		}, "passes: cluster needs 2 hosts, 8 of 8 are free"},
		"replicas of the autoscaler": {8, nil, func(c *clusterv1.Cluster) {
			md := &c.Spec.Topology.Workers.MachineDeployments[0]
			md.Replicas = nil
			md.Metadata.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "4"}
		}, "passes: cluster needs 5 hosts, 8 of 8 are free"},
		"machine pools count too": {8, nil, func(c *clusterv1.Cluster) {
			five := int32(5)
			c.Spec.Topology.Workers.MachinePools = []clusterv1.MachinePoolTopology{{Class: "pool", Name: "p", Replicas: &five}}
		}, "passes: cluster needs 8 hosts, 8 of 8 are free"},
		"a cluster that is being created has a promise": {4, func(w *world) {
			other := newCluster("other", 1, 1)
			other.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "K", Name: "n", APIGroup: "g"}
			w.clusters = append(w.clusters, other)
		}, nil, "wait 5s: cluster needs 3 hosts, 2 of 4 are free (2 promised to other clusters): add hosts, or make the cluster smaller"},
		"a cluster that goes away has none": {4, func(w *world) {
			other := newCluster("other", 1, 1)
			other.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "K", Name: "n", APIGroup: "g"}
			now := metav1.Now()
			other.DeletionTimestamp = &now
			w.clusters = append(w.clusters, other)
		}, nil, "passes: cluster needs 3 hosts, 4 of 4 are free"},
		"a paused cluster that waits has none": {4, func(w *world) {
			other, paused := newCluster("a", 1, 1), true
			other.Spec.Paused = &paused
			w.clusters = append(w.clusters, other)
		}, nil, "passes: cluster needs 3 hosts, 4 of 4 are free"},
		"a cluster whose class is gone has none": {4, func(w *world) {
			other := newCluster("a", 1, 1)
			other.Spec.Topology.ClassRef.Name = "gone"
			w.clusters = append(w.clusters, other)
		}, nil, "passes: cluster needs 3 hosts, 4 of 4 are free"},
		"Machines of a cluster without a topology have a promise": {4, func(w *world) {
			w.clusters = append(w.clusters, clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain"}})
			for i := range 3 {
				m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("m-%d", i)}}
				m.Spec.ClusterName, m.Spec.Version = "plain", "v1.36.3"
				m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: "m"}
				if i == 2 {
					m.Spec.InfrastructureRef.APIGroup = "infrastructure.example.org"
				}
				w.machines = append(w.machines, m)
			}
			w.hosts[0].Spec.Claim = &infrav1.HostClaim{Cluster: "plain"}
		}, nil, "wait 5s: cluster needs 3 hosts, 2 of 4 are free (1 claimed, 1 promised to other clusters): add hosts, or make the cluster smaller"},
		"the CRD is missing": {8, func(w *world) {
			w.fail["CapstanHost"] = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "CapstanHost"}}
		}, nil, "listing CapstanHosts: their CRD is not installed in the management cluster"},
		"listing hosts fails":     {8, func(w *world) { w.fail["CapstanHost"] = errors.New("forbidden") }, nil, "listing CapstanHosts: forbidden"},
		"listing clusters fails":  {8, func(w *world) { w.fail["Cluster"] = errors.New("forbidden") }, nil, "listing Clusters: forbidden"},
		"reading the class fails": {8, func(w *world) { w.fail["ClusterClass"] = errors.New("forbidden") }, nil, "reading ClusterClass default/local: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			w, mine := newWorld(c.hosts), newCluster("mine", 1, 2)
			if c.change != nil {
				c.change(w)
			}
			if c.mine != nil {
				c.mine(&mine)
			}
			w.clusters = append(w.clusters, mine)
			if got := ask(t, NewGate(w), mine); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// The younger one is asked about first, passes, and nothing shows it on its Cluster yet.
func TestTwoAtOnceDoNotBothPass(t *testing.T) {
	w := newWorld(3)
	older, younger := newCluster("older", 1, 2), newCluster("younger", 1, 2)
	younger.CreationTimestamp = metav1.NewTime(created.Add(time.Minute))
	w.clusters = []clusterv1.Cluster{younger}
	gate := NewGate(w)
	now := created
	gate.now = func() time.Time { return now }
	if got := ask(t, gate, younger); !strings.HasPrefix(got, "passes") {
		t.Fatal(got)
	}
	w.clusters = append(w.clusters, older) // its create arrived late
	for range 3 {
		if got := ask(t, gate, older); got != "wait 5s: cluster needs 3 hosts, 0 of 3 are free (3 promised to other clusters): add hosts, or make the cluster smaller" {
			t.Error(got)
		}
	}
	if got := ask(t, gate, younger); !strings.HasPrefix(got, "passes") {
		t.Errorf("asked again, the younger one: %s", got)
	}
	// It never went on: another extension held it, and then its user removed it and made it again.
	younger.UID = "another uid"
	w.clusters[0] = younger
	if got := ask(t, gate, older); !strings.HasPrefix(got, "passes") {
		t.Errorf("the younger one is another now, but the older one: %s", got)
	}
}

func TestThePromiseOfTheMemoryEnds(t *testing.T) {
	w := newWorld(3)
	older, younger := newCluster("older", 1, 2), newCluster("younger", 1, 2)
	younger.CreationTimestamp = metav1.NewTime(created.Add(time.Minute))
	w.clusters = []clusterv1.Cluster{younger, older}
	gate := NewGate(w)
	now := created
	gate.now = func() time.Time { return now }
	gate.admitted[keyOf(&younger)] = now
	if got := ask(t, gate, older); !strings.HasPrefix(got, "wait") {
		t.Error(got)
	}
	now = now.Add(admittedFor + time.Second)
	if got := ask(t, gate, older); !strings.HasPrefix(got, "passes") {
		t.Error(got)
	}
	if len(gate.admitted) != 1 {
		t.Errorf("the gate remembers %v", gate.admitted)
	}
}

// Many at once, on an inventory for some: exactly as many pass as have room.
func TestManyAtOnce(t *testing.T) {
	w := newWorld(10)
	for i := range 8 {
		w.clusters = append(w.clusters, newCluster(fmt.Sprintf("c%d", i), 1, 2))
	}
	gate := NewGate(w)
	var mu sync.Mutex
	var passed []string
	var group sync.WaitGroup
	for _, cluster := range w.clusters {
		group.Go(func() {
			for range 3 {
				if strings.HasPrefix(ask(t, gate, cluster), "passes") {
					mu.Lock()
					passed = append(passed, cluster.Name)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	if len(passed) != 3 {
		t.Errorf("%v passed, there is room for 3", passed)
	}
}

func TestGateWaitsNoLongerThanItsCaller(t *testing.T) {
	gate := NewGate(newWorld(1))
	gate.turn <- struct{}{} // somebody decides
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := gate.BeforeClusterCreate(ctx, &runtimehooksv1.BeforeClusterCreateRequest{}, &runtimehooksv1.BeforeClusterCreateResponse{})
	if err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("error is %v", err)
	}
}

func TestHostOf(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*infrav1.CapstanHost)
		want   capacity.State
	}{
		"off":             {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostOff }, capacity.Free},
		"available":       {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostAvailable }, capacity.Free},
		"without a phase": {func(*infrav1.CapstanHost) {}, capacity.Enrolling},
		"enrolling":       {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostEnrolling }, capacity.Enrolling},
		"claimed, and its phase is late": {func(h *infrav1.CapstanHost) {
			h.Status.Phase, h.Spec.Claim = infrav1.HostAvailable, &infrav1.HostClaim{Cluster: "c"}
		}, capacity.Claimed},
		"claimed and offline": {func(h *infrav1.CapstanHost) {
			h.Status.Phase, h.Spec.Claim = infrav1.HostOffline, &infrav1.HostClaim{Cluster: "c"}
		}, capacity.Claimed},
		"released": {func(h *infrav1.CapstanHost) { h.Spec.Claim = &infrav1.HostClaim{Cluster: "c", Released: true} }, capacity.Cleaning},
		"cleaning": {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostCleaning }, capacity.Cleaning},
		"offline":  {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostOffline }, capacity.Offline},
		"quarantined, with the claim it has": {func(h *infrav1.CapstanHost) {
			h.Status.Phase, h.Spec.Claim = infrav1.HostQuarantined, &infrav1.HostClaim{Released: true}
		}, capacity.Quarantined},
		"unschedulable":                         {func(h *infrav1.CapstanHost) { h.Status.Phase, h.Spec.Unschedulable = infrav1.HostOff, true }, capacity.Unschedulable},
		"being deleted":                         {func(h *infrav1.CapstanHost) { h.Status.Phase, h.DeletionTimestamp = infrav1.HostOff, &now }, capacity.Unschedulable},
		"claimed phase, but the claim has gone": {func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostClaimed }, capacity.Enrolling},
	} {
		host := &infrav1.CapstanHost{}
		c.change(host)
		got := hostOf(host)
		if got.State != c.want || (got.Cluster != "") != (c.want == capacity.Claimed) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestRoleIsTheSameInYAML(t *testing.T) {
	data, err := os.ReadFile("../config/extension/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		found = true
		if !equality.Semantic.DeepEqual(&role, ClusterRole()) {
			t.Errorf("config/extension/rbac.yaml has %+v, extension.ClusterRole %+v", role, ClusterRole())
		}
	}
	if !found {
		t.Error("config/extension/rbac.yaml has no ClusterRole")
	}
}
