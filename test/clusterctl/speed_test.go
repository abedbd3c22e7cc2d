//go:build linux

package clusterctl

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// machinesEach is how many machines each cluster of a measured move has.
const machinesEach = 3

// TestMoveSpeed measures moves of clusters, each with three machines and their hosts. CAPSTAN_TEST_MOVE lists the
// numbers of clusters, such as "1 10 50". No controllers run: the test measures clusterctl and two API servers.
func TestMoveSpeed(t *testing.T) {
	counts := strings.Fields(os.Getenv("CAPSTAN_TEST_MOVE"))
	if len(counts) == 0 {
		t.Skip("for make bench-move: set CAPSTAN_TEST_MOVE to numbers of clusters")
	}
	from, _ := newBareSide(t)
	to, _ := newBareSide(t)
	// An API server refuses the first list of each kind for a second, until its cache is filled. Where controllers run,
	// they have listed all kinds long before.
	from.warm()
	to.warm()
	for _, text := range counts {
		n, err := strconv.Atoi(text)
		from.must(err)
		namespace := fmt.Sprintf("move-%d-%d", n, time.Now().UnixNano())
		for i := range n {
			from.fill(namespace, fmt.Sprintf("c%d", i))
		}
		began := time.Now()
		from.run("move", "--namespace", namespace, "--to-kubeconfig", to.kubeconfig)
		took := time.Since(began)
		hosts := &infrav1.CapstanHostList{}
		if to.must(to.api.List(t.Context(), hosts, client.InNamespace(namespace))); len(hosts.Items) != n*machinesEach {
			t.Errorf("%d hosts have arrived, want %d", len(hosts.Items), n*machinesEach)
		}
		t.Logf("RESULT move of %d clusters with %d machines each: %s, %s for each cluster", n, machinesEach,
			took.Round(10*time.Millisecond), (took / time.Duration(n)).Round(10*time.Millisecond))
		if n == 1 && took > time.Minute {
			t.Errorf("moving one cluster took %s, want a minute at most", took)
		}
	}
}

// warm lists all kinds that are defined, like the caches of controllers when they start.
func (s side) warm() {
	s.Helper()
	definitions := &unstructured.UnstructuredList{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	s.must(s.api.List(s.Context(), definitions))
	for _, o := range definitions.Items {
		d := &apiextensionsv1.CustomResourceDefinition{}
		s.must(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d))
		for _, v := range d.Spec.Versions {
			if v.Served {
				list := &metav1.PartialObjectMetadataList{}
				list.SetGroupVersionKind(schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.ListKind})
				s.must(s.api.List(s.Context(), list))
			}
		}
	}
}

// fill creates a cluster with machines on hosts, in the state in which everything is provisioned.
func (s side) fill(namespace, name string) {
	s.Helper()
	if err := s.api.Create(s.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
	}); !apierrors.IsAlreadyExists(err) {
		s.must(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanCluster", Name: name,
		},
	}}
	s.createIn(namespace, cluster)
	cluster.Status = initializedStatus()
	s.must(s.api.Status().Update(s.Context(), cluster))
	s.createIn(namespace, &infrav1.CapstanCluster{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.CapstanClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 6443},
		}}, cluster)
	for i := range machinesEach {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{clusterv1.ClusterNameLabel: name},
		}, Spec: clusterv1.MachineSpec{
			ClusterName: name, Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: fmt.Sprintf("%s-%d", name, i),
			},
		}}
		s.createIn(namespace, m, cluster)
		m.Status.NodeRef = clusterv1.MachineNodeReference{Name: m.Name}
		s.must(s.api.Status().Update(s.Context(), m))
		id := fmt.Sprintf("capstan://%s/%s/12345678", namespace, m.Name)
		s.createIn(namespace, &infrav1.CapstanMachine{
			ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: m.Labels}, Spec: infrav1.CapstanMachineSpec{ProviderID: id},
		}, m)
		s.createIn(namespace, &infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{
				Name: m.Name, Labels: map[string]string{"clusterctl.cluster.x-k8s.io/move": "claimed"},
			},
			Spec: infrav1.CapstanHostSpec{Zone: "zone-a", Claim: &infrav1.HostClaim{
				Machine: m.Name, MachineUID: "12345678-0000", Cluster: name, ProviderID: id, Hostname: m.Name, BootstrapReady: true,
			}},
		})
	}
}
