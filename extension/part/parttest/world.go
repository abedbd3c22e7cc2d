package parttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// World is a management cluster in memory. It lists in pages of two and fails on request.
type World struct {
	mu       sync.Mutex
	Hosts    []infrav1.CapstanHost
	Clusters []clusterv1.Cluster
	Machines []clusterv1.Machine
	// Deployments and ControlPlane are the objects whose surge counts during an upgrade.
	Deployments  []clusterv1.MachineDeployment
	ControlPlane *unstructured.Unstructured
	// Templates are CapstanMachineTemplates, by namespace/name.
	Templates map[string]*infrav1.CapstanMachineTemplate
	// ClusterTemplates are CapstanClusterTemplates, by namespace/name.
	ClusterTemplates map[string]*infrav1.CapstanClusterTemplate
	// AddOns are ConfigMaps with the add-on label.
	AddOns []corev1.ConfigMap
	// Kubeconfigs are the contents of kubeconfig Secrets, by namespace/name.
	Kubeconfigs map[string][]byte
	// Classes are ClusterClasses, by namespace/name.
	Classes map[string]*clusterv1.ClusterClass
	// Fail holds the errors to return, by kind of list or object.
	Fail map[string]error
}

// Change changes the world while others may read it.
func (w *World) Change(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// Get implements client.Reader.
func (w *World) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if secret, is := object.(*corev1.Secret); is {
		if data, ok := w.Kubeconfigs[key.String()]; ok && w.Fail["Secret"] == nil {
			secret.Data = map[string][]byte{"value": data}
			return nil
		}
		return cmp.Or(w.Fail["Secret"], error(apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)))
	}
	if controlPlane, is := object.(*unstructured.Unstructured); is {
		if w.ControlPlane == nil || w.Fail["ControlPlane"] != nil {
			none := apierrors.NewNotFound(schema.GroupResource{Resource: "kubeadmcontrolplanes"}, key.Name)
			return cmp.Or(w.Fail["ControlPlane"], error(none))
		}
		w.ControlPlane.DeepCopyInto(controlPlane)
		return nil
	}
	if template, is := object.(*infrav1.CapstanClusterTemplate); is {
		if found, ok := w.ClusterTemplates[key.String()]; ok && w.Fail["CapstanClusterTemplate"] == nil {
			found.DeepCopyInto(template)
			return nil
		}
		none := apierrors.NewNotFound(schema.GroupResource{Resource: "capstanclustertemplates"}, key.Name)
		return cmp.Or(w.Fail["CapstanClusterTemplate"], error(none))
	}
	if template, is := object.(*infrav1.CapstanMachineTemplate); is {
		if found, ok := w.Templates[key.String()]; ok && w.Fail["CapstanMachineTemplate"] == nil {
			found.DeepCopyInto(template)
			return nil
		}
		none := apierrors.NewNotFound(schema.GroupResource{Resource: "capstanmachinetemplates"}, key.Name)
		return cmp.Or(w.Fail["CapstanMachineTemplate"], error(none))
	}
	if err := w.Fail["ClusterClass"]; err != nil {
		return err
	}
	class, ok := w.Classes[key.String()]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{
			Group: clusterv1.GroupVersion.Group, Resource: "clusterclasses",
		}, key.Name)
	}
	class.DeepCopyInto(object.(*clusterv1.ClusterClass))
	return nil
}

// List implements client.Reader.
func (w *World) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Limit == 0 {
		return errors.New("a list without a limit")
	}
	switch l := list.(type) {
	case *infrav1.CapstanHostList:
		return page(w, "CapstanHost", w.Hosts, options, &l.ListMeta, &l.Items)
	case *clusterv1.ClusterList:
		return page(w, "Cluster", w.Clusters, options, &l.ListMeta, &l.Items)
	case *corev1.ConfigMapList:
		addOn := labels.Set{"addons.capstan.dev/add-on": "any"}
		if !options.LabelSelector.Matches(addOn) || options.LabelSelector.Matches(labels.Set{}) {
			return errors.New("a list of ConfigMaps that are no add-ons")
		}
		whole := &client.ListOptions{Namespace: options.Namespace}
		return page(w, "ConfigMap", w.AddOns, whole, &l.ListMeta, &l.Items)
	case *clusterv1.MachineDeploymentList:
		return page(w, "MachineDeployment", w.Deployments, options, &l.ListMeta, &l.Items)
	case *clusterv1.MachineList:
		return page(w, "Machine", w.Machines, options, &l.ListMeta, &l.Items)
	}
	return fmt.Errorf("nobody has %T", list)
}

func page[T any, P interface {
	*T
	client.Object
}](w *World, kind string, all []T, options *client.ListOptions, list *metav1.ListMeta, items *[]T) error {
	if err := w.Fail[kind]; err != nil {
		return err
	}
	start := 0
	if options.Continue != "" {
		if _, err := fmt.Sscan(options.Continue, &start); err != nil {
			return err
		}
	}
	var found []T
	for i := range all {
		if P(&all[i]).GetNamespace() == options.Namespace {
			found = append(found, all[i])
		}
	}
	end := min(start+2, len(found))
	*items = found[min(start, end):end]
	if end < len(found) {
		list.Continue = fmt.Sprint(end)
	}
	return nil
}

// NewWorld returns a world with this many free hosts in zone-a and the ClusterClasses local, whose machines are
// Capstan's, and cloud, whose machines are not.
func NewWorld(hosts int) *World {
	w := &World{Classes: map[string]*clusterv1.ClusterClass{
		"default/local": class(infrav1.GroupVersion.String()),
		"default/cloud": class("infrastructure.example.org/v1"),
	}, Fail: map[string]error{}}
	for i := range hosts {
		w.Hosts = append(w.Hosts, infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("host-%d", i)},
			Spec:       infrav1.CapstanHostSpec{Zone: "zone-a"},
			Status:     infrav1.CapstanHostStatus{Phase: infrav1.HostOff},
		})
	}
	return w
}

func class(templates string) *clusterv1.ClusterClass {
	template := clusterv1.ClusterClassTemplateReference{APIVersion: templates, Kind: "Template", Name: "t"}
	infrastructure := clusterv1.MachineDeploymentClassInfrastructureTemplate{TemplateRef: template}
	c := &clusterv1.ClusterClass{}
	c.Spec.ControlPlane.MachineInfrastructure.TemplateRef = template
	c.Spec.Workers.MachineDeployments = []clusterv1.MachineDeploymentClass{
		{Class: "worker", Infrastructure: infrastructure},
		{Class: "zoned", FailureDomain: "zone-b", Infrastructure: infrastructure},
	}
	c.Spec.Workers.MachinePools = []clusterv1.MachinePoolClass{
		{
			Class: "pool", FailureDomains: []string{"zone-a", "zone-b"},
			Infrastructure: clusterv1.MachinePoolClassInfrastructureTemplate{TemplateRef: template},
		},
	}
	return c
}

// Created is the creation time of the Clusters of [NewCluster].
var Created = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// NewCluster returns a Cluster of ClusterClass local.
func NewCluster(name string, controlPlane, workers int32) clusterv1.Cluster {
	c := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid of " + name), CreationTimestamp: metav1.NewTime(Created),
	}}
	c.Spec.Topology = clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: "local"}, Version: "v1.36.3",
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: &controlPlane},
		Workers: clusterv1.WorkersTopology{
			MachineDeployments: []clusterv1.MachineDeploymentTopology{{Class: "worker", Name: "md-0", Replicas: &workers}},
		},
	}
	return c
}
