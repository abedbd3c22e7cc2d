//go:build linux

package clusterctl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider"
)

// side is a management cluster in which Capstan's provider runs, but not Cluster API's own controllers: the test writes
// what they would write, and what agents report.
type side struct{ *world }

// newBareSide returns a side in which nothing runs.
func newBareSide(t *testing.T) (side, *rest.Config) {
	t.Helper()
	s := side{newWorld(t)}
	s.cluster()
	s.install(current)
	scheme := runtime.NewScheme()
	s.must(provider.AddToScheme(scheme))
	settings, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	s.must(err)
	settings.QPS, settings.Burst = 200, 400
	s.api, err = client.New(settings, client.Options{Scheme: scheme})
	s.must(err)
	return s, settings
}

func newSide(t *testing.T) side {
	t.Helper()
	s, settings := newBareSide(t)
	kept, err := provider.CacheByObject()
	s.must(err)
	mgr, err := ctrl.NewManager(settings, ctrl.Options{
		Scheme: s.api.Scheme(), Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{ByObject: kept},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	s.must(provider.Setup(ctx, mgr, provider.Options{HeartbeatTimeout: time.Hour}))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ending the provider: %v", err)
		}
	})
	return s
}

// has reads an object, and reports whether it exists.
func (s side) has(o client.Object, name string) bool {
	s.Helper()
	err := s.api.Get(s.Context(), client.ObjectKey{Namespace: "blue", Name: name}, o)
	s.must(client.IgnoreNotFound(err))
	return err == nil
}

func (s side) host(name string) *infrav1.CapstanHost {
	s.Helper()
	h := &infrav1.CapstanHost{}
	if !s.has(h, name) {
		s.Fatalf("host %s isn't there", name)
	}
	return h
}

// agent does what the agent of a host does: it sends a heartbeat, and reports that it has done what the claim requests.
func (s side) agent(name string) {
	s.Helper()
	lease := &coordinationv1.Lease{}
	if s.has(lease, name) {
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		s.must(ignoreConflict(s.api.Update(s.Context(), lease)))
	}
	h := s.host(name)
	h.Status.Agent = &infrav1.AgentReport{Version: "test", BootID: "boot", Address: "192.0.2.50", Epoch: &h.Spec.Epoch}
	if c := h.Spec.Claim; c != nil {
		r := &infrav1.BootstrapReport{ProviderID: c.ProviderID, Phase: infrav1.BootstrapSucceeded}
		if c.Proof == infrav1.ProofCompare {
			r.Baseline = strings.Repeat("b", 43)
			if c.Baseline == "" {
				r.Phase = infrav1.BootstrapRunning // the agent waits until the claim has the baseline
			}
		}
		h.Status.Agent.Bootstrap = r
	}
	s.must(ignoreConflict(s.api.Status().Update(s.Context(), h)))
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// create creates an object in namespace blue with these owners.
func (s side) create(o client.Object, owners ...client.Object) {
	s.Helper()
	s.createIn("blue", o, owners...)
}

func (s side) createIn(namespace string, o client.Object, owners ...client.Object) {
	s.Helper()
	var refs []metav1.OwnerReference
	for _, owner := range owners {
		kind, err := s.api.GroupVersionKindFor(owner)
		s.must(err)
		refs = append(refs, metav1.OwnerReference{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.GetName(), UID: owner.GetUID(),
		})
	}
	o.SetNamespace(namespace)
	o.SetOwnerReferences(refs)
	s.must(s.api.Create(s.Context(), o))
}

// populate creates the hosts h1 and h2, and a cluster c1 with a machine m1 that has one of them.
func (s side) populate() (claimed, free string) {
	s.Helper()
	for _, name := range []string{"h1", "h2"} {
		s.create(&infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.CapstanHostSpec{Zone: "zone-a"},
		})
		s.until("host "+name+" is available", func() bool {
			s.agent(name)
			return s.host(name).Status.Phase == infrav1.HostAvailable
		})
	}
	cluster := &clusterv1.Cluster{}
	for _, o := range documents(s.T, s.generate("external")) {
		if o.GetKind() != "Cluster" {
			s.create(o, cluster)
			continue
		}
		s.create(o)
		s.has(cluster, "c1")
	}
	s.until("the cluster has its infrastructure", func() bool {
		c := &infrav1.CapstanCluster{}
		return s.has(c, "c1") && ptr.Deref(c.Status.Initialization.Provisioned, false)
	})
	s.initialized()
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "c1-ca"}, Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"tls.key": []byte("of a user")},
	})
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "unrelated"}})

	labels := map[string]string{clusterv1.ClusterNameLabel: "c1", clusterv1.MachineControlPlaneLabel: ""}
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m1", Labels: labels}, Spec: clusterv1.MachineSpec{
		ClusterName: "c1", Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("m1-data")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachine", Name: "m1",
		},
	}}
	s.create(m, cluster)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "m1-data", Labels: map[string]string{infrav1.BootstrapDataLabel: ""}},
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{"value": []byte("#cloud-config\n"), "format": []byte("cloud-config")},
	}, m)
	s.create(&infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Name: "m1", Labels: labels}}, m)
	s.until("the machine is provisioned", func() bool {
		for _, name := range []string{"h1", "h2"} {
			if s.agent(name); s.host(name).Spec.Claim != nil {
				claimed = name
			} else {
				free = name
			}
		}
		return claimed != "" && s.provisioned()
	})
	s.has(m, "m1")
	m.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m1"}
	s.must(s.api.Status().Update(s.Context(), m))
	return claimed, free
}

// initialized writes the Cluster's status in place of core, because clusterctl does not move status.
func (s side) initialized() {
	s.Helper()
	c := &clusterv1.Cluster{}
	s.has(c, "c1")
	c.Status = initializedStatus()
	s.must(s.api.Status().Update(s.Context(), c))
}

func initializedStatus() clusterv1.ClusterStatus {
	return clusterv1.ClusterStatus{
		Initialization: clusterv1.ClusterInitializationStatus{
			InfrastructureProvisioned: ptr.To(true), ControlPlaneInitialized: ptr.To(true),
		},
		Conditions: []metav1.Condition{
			{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Test",
				LastTransitionTime: metav1.Now()},
		},
	}
}

func (s side) provisioned() bool {
	s.Helper()
	m := &infrav1.CapstanMachine{}
	return s.has(m, "m1") && m.Spec.ProviderID != "" && ptr.Deref(m.Status.Initialization.Provisioned, false)
}

// kinds are the kinds that move with a cluster of flavor external.
var kinds = map[string]schema.GroupVersion{
	"Cluster": clusterv1.GroupVersion, "Machine": clusterv1.GroupVersion, "MachineDeployment": clusterv1.GroupVersion,
	"CapstanCluster": infrav1.GroupVersion, "CapstanMachine": infrav1.GroupVersion,
	"CapstanMachineTemplate": infrav1.GroupVersion,
	"KubeadmControlPlane":    {Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2"},
	"KubeadmConfigTemplate":  {Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"},
}

// census counts the objects that move with the cluster, and lists their names.
func (s side) census() map[string]int {
	s.Helper()
	all := map[string]int{}
	for kind, gv := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gv.WithKind(kind + "List"))
		s.must(s.api.List(s.Context(), list, client.InNamespace("blue")))
		for _, o := range list.Items {
			all[kind+" "+o.GetName()]++
		}
	}
	for _, name := range []string{"c1-ca", "m1-data"} {
		if s.has(&corev1.Secret{}, name) {
			all["Secret "+name]++
		}
	}
	return all
}

// resume resumes a cluster that an interrupted move has paused.
func (s side) resume() {
	s.Helper()
	c := &clusterv1.Cluster{}
	if s.has(c, "c1") {
		s.must(
			s.api.Patch(s.Context(), c, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"paused":null}}`))))
	}
}

// mover is a clusterctl move in progress.
type mover struct{ cmd *exec.Cmd }

func (s side) mover(to side) mover {
	s.Helper()
	m := mover{
		exec.CommandContext(s.Context(), s.binary, "move", "--config", s.config, "--namespace", "blue", "--to-kubeconfig",
			to.kubeconfig),
	}
	m.cmd.Env = []string{"HOME=" + s.home, "XDG_CONFIG_HOME=" + s.home, "GOPROXY=off",
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "KUBECONFIG=" + s.kubeconfig}
	log, err := os.Create(s.home + "/move.log")
	s.must(err)
	defer log.Close()
	m.cmd.Stdout, m.cmd.Stderr = log, log
	s.must(m.cmd.Start())
	return m
}

// said reports whether the mover's output contains these words.
func (s side) said(words string) bool {
	s.Helper()
	text, err := os.ReadFile(s.home + "/move.log")
	s.must(err)
	return strings.Contains(string(text), words)
}

// kill kills the mover as kill -9 does.
func (m mover) kill() { _ = m.cmd.Process.Kill(); _ = m.cmd.Wait() }

// TestMove moves a cluster with the real clusterctl from one management cluster to another, killing and repeating the
// move at two points. Then it moves the cluster back, with the real agent on its host (T-CT-10, T-CT-11). Package
// test/contract checks, in a real cluster, which objects lead to a Cluster (T-CT-09).
func TestMove(t *testing.T) {
	from, to := newSide(t), newSide(t)
	claimed, free := from.populate()
	claim := *from.host(claimed).Spec.Claim
	all := from.census()
	if len(all) < 10 {
		t.Fatalf("the cluster has too few objects for this test: %v", all)
	}

	from.labelledByInit()
	from.populateBeside(to)
	farewell := from.farewell()

	from.paused(to)
	from.run("move", "--namespace", "blue", "--dry-run")
	same(t, "after a dry run", from.census(), all)

	// Nothing moves until somebody vouches that the agent follows.
	m := from.mover(to)
	from.until("the move waits for the host", func() bool { return from.said("Move blocked by") })
	same(t, "while the move is held", to.census(), nil)
	t.Attr("rule", "CT-107")
	m.kill()
	from.resume()
	same(t, "after a move that was held and killed, in the source", from.census(), all)
	same(t, "after a move that was held and killed, in the target", to.census(), nil)

	// After the hand-over, the mover continues by itself, and is killed as soon as something has arrived.
	m = from.mover(to)
	from.until("the move waits for the host again", func() bool { return from.said("Move blocked by") })
	host := from.host(claimed)
	if !hasKey(host.Annotations, clusterctlv1.BlockMoveAnnotation) {
		t.Errorf("the host that holds the move lacks the hold: %v", host.Annotations)
	}
	t.Attr("rule", "CT-106")
	from.must(
		from.api.Patch(t.Context(), host, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, infrav1.HandedOverAnnotation, host.UID))))
	from.until("something arrives", func() bool { return len(to.census()) > 0 })
	m.kill()
	t.Logf("killed with %d objects here and %d there", len(from.census()), len(to.census()))
	from.resume()
	from.run("move", "--namespace", "blue", "--to-kubeconfig", to.kubeconfig)
	to.resume() // if the first mover had already moved the Cluster

	same(t, "in the target", to.census(), all)
	same(t, "in the source", from.census(), nil)
	if from.has(&infrav1.CapstanHost{}, claimed) || !from.has(&infrav1.CapstanHost{}, free) ||
		to.has(&infrav1.CapstanHost{}, free) {
		t.Errorf("host %s has not moved, or host %s has not stayed", claimed, free)
	}
	t.Attr("rule", "CT-96")
	from.movedBeside(to)
	from.wentForMove(farewell, to, claimed, claim)
	to.withoutStatus()
	to.arrived(claimed, claim)

	moveWithAgent(t, to, from, claimed, claim)
}

// wentForMove checks the CapstanMachine as it was when it left the source: it was marked and had the provider's
// finalizer, so only the mover can have cleared the finalizer. The provider has done nothing for a deletion: the claim
// is unchanged.
func (s side) wentForMove(last func() (*infrav1.CapstanMachine, error), to side, host string, claim infrav1.HostClaim) {
	s.Helper()
	m, err := last()
	s.must(err)
	marked := hasKey(m.Annotations, clusterctlv1.DeleteForMoveAnnotation)
	if !marked || m.DeletionTimestamp == nil || len(m.Finalizers) == 0 {
		s.Errorf("the machine left with the annotations %v and the finalizers %v", m.Annotations, m.Finalizers)
	}
	if got := to.host(host).Spec.Claim; got == nil || !reflect.DeepEqual(*got, claim) {
		s.Errorf("the deletion in the source changed the claim: it is %+v, was %+v", got, claim)
	}
	s.Attr("rule", "CT-111")
}

// withoutStatus checks a Cluster that has just arrived: no controller of Cluster API has written its status here.
func (s side) withoutStatus() {
	s.Helper()
	c := &clusterv1.Cluster{}
	if !s.has(c, "c1") {
		s.Fatal("the cluster isn't there")
	}
	i := c.Status.Initialization
	if i.InfrastructureProvisioned != nil || i.ControlPlaneInitialized != nil || len(c.Status.Conditions) > 0 {
		s.Errorf("the status has come along: %+v", c.Status)
	}
	s.Attr("rule", "CT-108")
}

// paused checks that a cluster that somebody has paused doesn't move.
func (s side) paused(to side) {
	s.Helper()
	c := &clusterv1.Cluster{}
	s.has(c, "c1")
	s.must(
		s.api.Patch(s.Context(), c, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"paused":true}}`))))
	s.refused("paused: blue/c1", "move", "--namespace", "blue", "--to-kubeconfig", to.kubeconfig)
	same(s.T, "after a move that was refused", to.census(), nil)
	s.resume()
}

// arrived checks that the machine is still the same instance on the same host, that the host's agent has an identity
// here, and that the host holds the next move.
func (s side) arrived(host string, claim infrav1.HostClaim) {
	s.Helper()
	s.initialized()
	s.until("the machine is provisioned in the target", func() bool { s.agent(host); return s.provisioned() })
	s.until("the host holds the next move", func() bool {
		_, held := s.host(host).Annotations[clusterctlv1.BlockMoveAnnotation]
		return held
	})
	if got := s.host(host).Spec.Claim; got == nil || !reflect.DeepEqual(*got, claim) {
		s.Errorf("the claim is %+v, was %+v", got, claim)
	}
	m := &infrav1.CapstanMachine{}
	if s.has(m, "m1"); m.Spec.ProviderID != claim.ProviderID || m.Status.Host != host {
		s.Errorf("the machine has become %s on host %q", m.Spec.ProviderID, m.Status.Host)
	}
	s.until("the agent has an account in the target",
		func() bool { return s.has(&corev1.ServiceAccount{}, infrav1.IdentityPrefix+host) })
}

// same compares two counts.
func same(t *testing.T, when string, got, want map[string]int) {
	t.Helper()
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: there are %d of %s, want %d", when, got[name], name, n)
		}
	}
	for name := range got {
		if want[name] == 0 {
			t.Errorf("%s: there is an unexpected %s", when, name)
		}
	}
}
