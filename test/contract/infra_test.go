//go:build linux

package contract

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// errInfra is the error of an infrastructure call that the test makes fail.
var errInfra = errors.New("the infrastructure is broken by this test")

// infra is the instrumented infrastructure of one namespace: a supplier of hosts and a balancer that record each call
// with an effect and fail on request, and the agents of the hosts.
type infra struct {
	t  *testing.T
	ns string
	// nodes makes agents register a Node. The API server itself is the workload cluster.
	nodes bool

	mu       sync.Mutex
	config   []byte                              // what the last agent received
	calls    []string                            // calls that had an effect or failed, in order
	early    []string                            // objects that had no finalizer when something was created for them
	failures map[string]int                      // calls that fail, with the number of failures left
	running  map[string]bool                     // hosts that exist
	dead     map[string]bool                     // hosts whose agent is silent
	fails    map[string]bool                     // machines whose bootstrap data fails
	failNext int                                 // how many bootstraps fail from now on, of any machine
	backends map[string][]string                 // backends of each cluster that has a balancer
	journal  map[string]*infrav1.BootstrapReport // reports of agents, by provider id
}

func newInfra(t *testing.T, ns string) *infra {
	i := &infra{
		t: t, ns: ns, failures: map[string]int{}, running: map[string]bool{}, dead: map[string]bool{},
		fails:    map[string]bool{},
		backends: map[string][]string{}, journal: map[string]*infrav1.BootstrapReport{},
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.agents(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return i
}

// call records a call that has an effect. It returns an error if the test wants the call to fail. The caller holds
// i.mu.
func (i *infra) call(what string) error {
	verb, _, _ := strings.Cut(what, " ")
	if i.failures[verb] > 0 {
		i.failures[verb]--
		i.calls = append(i.calls, "failed "+what)
		return fmt.Errorf("%s: %w", what, errInfra)
	}
	i.calls = append(i.calls, what)
	return nil
}

// fail makes the next n calls of a kind fail. Kinds are create, delete, balance, unbalance, register and deregister.
func (i *infra) fail(verb string, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.failures[verb] = n
}

// set changes the state that agents see.
func (i *infra) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// made returns the calls so far that begin with one of the words.
func (i *infra) made(words ...string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var found []string
	for _, c := range i.calls {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(c, w) }) || len(words) == 0 {
			found = append(found, c)
		}
	}
	return found
}

// unguardedObjects returns the objects for which something was created before they had our finalizer.
func (i *infra) unguardedObjects() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.early)
}

// guarded records an object that has no finalizer yet when something is created for it. Deleted objects don't count.
func (i *infra) guarded(ctx context.Context, o client.Object, name, finalizer string) {
	err := shared.admin.Get(ctx, types.NamespacedName{Namespace: i.ns, Name: name}, o)
	if err != nil || controllerutil.ContainsFinalizer(o, finalizer) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.early = append(i.early, fmt.Sprintf("%T %s", o, name))
}

func (i *infra) Versions() []string { return []string{"v1.36.3"} }

func (i *infra) PowerOn(ctx context.Context, host string, config []byte) (string, error) {
	h := &infrav1.CapstanHost{}
	if shared.admin.Get(ctx, types.NamespacedName{Namespace: i.ns, Name: host}, h) == nil && h.Spec.Claim != nil {
		i.guarded(ctx, &infrav1.CapstanMachine{}, h.Spec.Claim.Machine, infrav1.MachineFinalizer)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.config = config
	if i.running[host] {
		return addressOf(host), nil
	}
	if err := i.call("create " + host); err != nil {
		return "", err
	}
	i.running[host] = true
	return addressOf(host), nil
}

func (i *infra) Destroy(_ context.Context, host string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.running[host] {
		return nil
	}
	if err := i.call("delete " + host); err != nil {
		return err
	}
	delete(i.running, host)
	delete(i.dead, host)
	return nil
}

func (i *infra) List(context.Context) ([]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.running)), nil
}

func (i *infra) Ensure(ctx context.Context, cluster types.NamespacedName) (string, int32, error) {
	i.guarded(ctx, &infrav1.CapstanCluster{}, cluster.Name, infrav1.ClusterFinalizer)
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.backends[cluster.Name]; !ok || i.failures["balance"] > 0 {
		if err := i.call("balance " + cluster.Name); err != nil {
			return "", 0, err
		}
		i.backends[cluster.Name] = []string{}
	}
	return "10.231.16.1", 6443, nil
}

func (i *infra) SetBackends(_ context.Context, cluster types.NamespacedName, to []string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	has := i.backends[cluster.Name]
	for _, a := range to {
		if !slices.Contains(has, a) {
			if err := i.call("register " + a); err != nil {
				return err
			}
		}
	}
	for _, a := range has {
		if !slices.Contains(to, a) {
			if err := i.call("deregister " + a); err != nil {
				return err
			}
		}
	}
	i.backends[cluster.Name] = slices.Clone(to)
	return nil
}

func (i *infra) Delete(_ context.Context, cluster types.NamespacedName) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.backends[cluster.Name]; !ok {
		return nil
	}
	if err := i.call("unbalance " + cluster.Name); err != nil {
		return err
	}
	delete(i.backends, cluster.Name)
	return nil
}

// agents does what the agents of all running hosts do, until ctx is done.
func (i *infra) agents(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		hosts := &infrav1.CapstanHostList{}
		if err := shared.admin.List(ctx, hosts, client.InNamespace(i.ns)); err != nil {
			continue
		}
		for n := range hosts.Items {
			if err := i.agent(ctx, &hosts.Items[n]); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) &&
				!apierrors.IsNotFound(err) {
				i.t.Errorf("agent of %s: %v", hosts.Items[n].Name, err)
			}
		}
	}
}

// agent is one turn of a host's agent: a heartbeat, and a report if there is something new.
func (i *infra) agent(ctx context.Context, host *infrav1.CapstanHost) error {
	i.mu.Lock()
	lives := (i.running[host.Name] || host.Spec.Supplier == "") && !i.dead[host.Name]
	i.mu.Unlock()
	if !lives {
		return nil
	}
	if err := i.beat(ctx, host.Name); err != nil {
		return err
	}
	before := host.DeepCopy()
	if host.Status.Agent == nil {
		host.Status.Agent = &infrav1.AgentReport{}
	}
	host.Status.Agent.Address = addressOf(host.Name)
	if host.Spec.Supplier == "" {
		host.Status.Agent.Epoch = ptr.To(host.Spec.Epoch)
	}
	if c := host.Spec.Claim; c != nil && c.BootstrapReady && !c.Released {
		report, err := i.bootstrap(ctx, host)
		if err != nil {
			return err
		}
		host.Status.Agent.Bootstrap = report
	}
	if c := host.Spec.Claim; c != nil && c.Released && host.Spec.Supplier == "" {
		host.Status.Agent.Cleaning = &infrav1.CleaningReport{ProviderID: c.ProviderID, Done: true}
	}
	patch := client.MergeFrom(before)
	if data, err := patch.Data(host); err != nil || string(data) == "{}" {
		return err
	}
	return shared.admin.Status().Patch(ctx, host, patch)
}

func (i *infra) beat(ctx context.Context, host string) error {
	lease := &coordinationv1.Lease{}
	if err := shared.admin.Get(ctx, types.NamespacedName{Namespace: i.ns, Name: host}, lease); err != nil {
		return err
	}
	if last := lease.Spec.RenewTime; last != nil && time.Since(last.Time) < 500*time.Millisecond {
		return nil
	}
	before := lease.DeepCopy()
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	return shared.admin.Patch(ctx, lease, client.MergeFrom(before))
}

// bootstrap runs the bootstrap data of the host's claim once, and returns the report about it, or nil while there is no
// data.
func (i *infra) bootstrap(ctx context.Context, host *infrav1.CapstanHost) (*infrav1.BootstrapReport, error) {
	c := host.Spec.Claim
	i.mu.Lock()
	report, fails, nodes := i.journal[c.ProviderID], i.fails[c.Machine] || i.failNext > 0, i.nodes
	i.mu.Unlock()
	if report != nil {
		return report, nil
	}
	secret := &corev1.Secret{}
	err := shared.admin.Get(ctx, types.NamespacedName{
		Namespace: i.ns, Name: host.Name + infrav1.BootstrapSecretSuffix,
	}, secret)
	if err != nil || !strings.Contains(string(secret.Data["metadata"]), c.ProviderID) {
		return nil, client.IgnoreNotFound(err)
	}
	report = &infrav1.BootstrapReport{ProviderID: c.ProviderID, Phase: infrav1.BootstrapSucceeded}
	switch {
	case fails:
		report.Phase, report.Step, report.Message = infrav1.BootstrapFailed, "runcmd 1/2", "exit code 1"
	case nodes:
		if err := node(ctx, c); err != nil {
			return nil, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.journal[c.ProviderID] = report
	if report.Phase == infrav1.BootstrapFailed && i.failNext > 0 {
		i.failNext--
	}
	return report, nil
}

// node registers the Node that a kubelet would register.
func node(ctx context.Context, c *infrav1.HostClaim) error {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.Hostname, Labels: map[string]string{}},
		Spec:       corev1.NodeSpec{ProviderID: c.ProviderID},
	}
	if c.ControlPlane {
		n.Labels["node-role.kubernetes.io/control-plane"] = ""
	}
	if err := shared.admin.Create(ctx, n); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now(),
			LastHeartbeatTime: metav1.Now()},
	}
	return shared.admin.Status().Update(ctx, n)
}

// addressOf returns the address of a host: 10.231.1.7 for host-07.
func addressOf(host string) string {
	var n int
	if _, err := fmt.Sscanf(host[strings.LastIndex(host, "-")+1:], "%d", &n); err != nil {
		return ""
	}
	return fmt.Sprintf("10.231.%d.%d", 1+n/250, 1+n%250)
}
