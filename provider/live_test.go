//go:build linux

package provider

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/metrics"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// limit bounds each wait in these tests.
const limit = 60 * time.Second

// live is a real API server with the provider running in a real manager, with the rights of config/rbac.
type live struct {
	*testing.T
	admin client.WithWatch
	dock  *liveDock
	// metrics is where the provider registers its metrics.
	metrics *prometheus.Registry

	mu     sync.Mutex
	writes map[string]int // what the manager wrote, by method and resource
}

// startLive starts everything, with n local hosts.
func startLive(t *testing.T, n int) *live {
	t.Helper()
	env := startAPI(t)
	if err := apiserver.Admit(env.Config); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	l := &live{T: t, metrics: prometheus.NewPedanticRegistry(), writes: map[string]int{}}
	l.must(AddToScheme(scheme))
	admin, err := client.NewWithWatch(env.Config, client.Options{Scheme: scheme})
	l.must(err)
	l.admin = admin
	l.dock = &liveDock{t: t, scheme: scheme, agents: map[string]*liveAgent{}, backends: map[string][]string{}}

	user, err := env.AddUser(envtest.User{Name: "capstan-manager"}, nil)
	l.must(err)
	l.grant("capstan-manager")
	access := rest.CopyConfig(user.Config())
	access.QPS, access.Burst = 200, 400
	access.Wrap(func(next http.RoundTripper) http.RoundTripper { return counter{l, next} })

	byObject, err := CacheByObject()
	l.must(err)
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{ByObject: byObject},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // each test has its own manager
	})
	l.must(err)
	ctx, stop := context.WithCancel(context.Background())
	l.must(Setup(ctx, mgr, Options{
		Balancer: l.dock, Supplier: l.dock, AgentServer: AgentServer{URL: env.Config.Host, CAData: env.Config.CAData},
		Metrics: l.metrics,
	}))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the manager ended with: %v", err)
			}
		case <-time.After(limit):
			t.Error("the manager doesn't end")
		}
		l.dock.end()
	})
	for i := range n {
		host := &infrav1.CapstanHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("host-%02d", i+1)},
			Spec:       infrav1.CapstanHostSpec{Zone: "zone-" + "abc"[i%3:i%3+1], Supplier: infrav1.SupplierDock},
		}
		l.must(admin.Create(t.Context(), host))
	}
	l.until("all hosts are ready to be claimed", func() bool {
		hosts := &infrav1.CapstanHostList{}
		l.must(admin.List(t.Context(), hosts))
		return len(hosts.Items) == n && !slices.ContainsFunc(hosts.Items, func(h infrav1.CapstanHost) bool {
			return !conditions.IsTrue(&h, infrav1.ReadyCondition)
		})
	})
	return l
}

// grant gives a user exactly the rights of the manager.
func (l *live) grant(user string) {
	l.Helper()
	data, err := os.ReadFile("../config/rbac/role.yaml")
	l.must(err)
	role := &rbacv1.ClusterRole{}
	l.must(yaml.UnmarshalStrict(data, role))
	l.must(l.admin.Create(l.Context(), role))
	l.must(l.admin.Create(l.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

func (l *live) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// until waits for a condition.
func (l *live) until(what string, ok func() bool) {
	l.Helper()
	deadline := time.Now().Add(limit)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if ok() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			machines, hosts := &infrav1.CapstanMachineList{}, &infrav1.CapstanHostList{}
			_ = l.admin.List(l.Context(), machines)
			_ = l.admin.List(l.Context(), hosts)
			for _, m := range machines.Items {
				l.Logf("machine %s: %+v %+v", m.Name, m.Spec, m.Status)
			}
			for _, h := range hosts.Items {
				l.Logf("host %s: %+v %+v", h.Name, h.Spec, h.Status)
			}
			l.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// counter is an HTTP transport that counts the writes that pass through it.
type counter struct {
	l    *live
	next http.RoundTripper
}

func (c counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		for i, part := range parts {
			if part == "namespaces" && len(parts) > i+2 {
				what := parts[i+2]
				if len(parts) > i+4 {
					what += "/" + parts[i+4]
				}
				c.l.mu.Lock()
				c.l.writes[r.Method+" "+what]++
				c.l.mu.Unlock()
			}
		}
	}
	return c.next.RoundTrip(r)
}

// written returns what was written since its last call.
func (l *live) written() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.writes
	l.writes = map[string]int{}
	return w
}

// create creates objects as Cluster API would: owner references have the uids that the API server assigned.
func (l *live) create(objects ...client.Object) {
	l.Helper()
	var owner types.UID
	for _, o := range objects {
		o.SetUID("")
		for i := range o.GetOwnerReferences() {
			refs := o.GetOwnerReferences()
			refs[i].UID = owner
			o.SetOwnerReferences(refs)
		}
		l.must(l.admin.Create(l.Context(), o))
		owner = o.GetUID()
	}
}

func (l *live) get(name string, o client.Object) bool {
	l.Helper()
	err := l.admin.Get(l.Context(), types.NamespacedName{Namespace: ns, Name: name}, o)
	l.must(client.IgnoreNotFound(err))
	return err == nil
}

// cluster creates Cluster demo and marks its infrastructure as provisioned, as Cluster API would.
func (l *live) cluster() {
	l.Helper()
	l.create(demo(infrav1.LoadBalancerLocal)...)
	c := &infrav1.CapstanCluster{}
	l.until("the cluster is provisioned", func() bool {
		l.get("demo-infra", c)
		return ptr.Deref(c.Status.Initialization.Provisioned, false)
	})
	if !c.Spec.ControlPlaneEndpoint.IsValid() || len(c.Status.FailureDomains) == 0 {
		l.Fatalf("provisioned with endpoint %v and failure domains %v", c.Spec.ControlPlaneEndpoint, c.Status.FailureDomains)
	}
	owner := &clusterv1.Cluster{}
	l.get("demo", owner)
	owner.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	l.must(l.admin.Status().Update(l.Context(), owner))
}

func (l *live) ready(names ...string) {
	l.Helper()
	for _, name := range names {
		m := &infrav1.CapstanMachine{}
		l.until("machine "+name+" is ready", func() bool {
			return l.get(name, m) && conditions.IsTrue(m, infrav1.ReadyCondition)
		})
	}
}

func (l *live) delete(names ...string) {
	l.Helper()
	for _, name := range names {
		l.must(l.admin.Delete(l.Context(), &infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}))
	}
	for _, name := range names {
		l.until("machine "+name+" is gone", func() bool { return !l.get(name, &infrav1.CapstanMachine{}) })
	}
}

// TestLive takes a control plane machine and a worker through their life, with agents that only have the rights of
// agents.
func TestLive(t *testing.T) {
	l := startLive(t, 6)
	watched := l.watchRevisions()
	l.cluster()

	start := time.Now()
	l.written()
	l.create(member("cp", true)...)
	l.ready("cp")
	t.Logf("a machine is ready %v after its creation; the manager wrote %v", time.Since(start).Round(time.Millisecond),
		l.written())
	l.until("the machine is a backend (IM-51)", func() bool { return len(l.dock.backendsOf("demo")) == 1 })
	l.create(member("w1", false)...)
	l.ready("w1")

	m := &infrav1.CapstanMachine{}
	l.get("w1", m)
	refused := l.attack(m.Status.Host)
	if l.get(m.Status.Host+infrav1.BootstrapSecretSuffix, &corev1.Secret{}) {
		t.Error("the bootstrap data is left after success")
	}
	l.written()
	before := m.ResourceVersion
	for n := range 3 {
		l.get("w1", m)
		m.Annotations = map[string]string{"touched": fmt.Sprint(n)}
		l.must(l.admin.Update(t.Context(), m))
	}
	start = time.Now()
	l.delete("w1", "cp")
	t.Logf("two machines are deleted in %v; touched from revision %s, the manager wrote %v",
		time.Since(start).Round(time.Millisecond), before, l.written())
	if names, _ := l.dock.List(t.Context()); len(names) != 0 {
		t.Errorf("hosts still run: %v", names)
	}
	l.measured(map[string]float64{
		metrics.Hosts: 6, metrics.Agents: 6, metrics.Waiting: 0, metrics.Unschedulable: 0,
		metrics.ClaimWait: 2, metrics.BootstrapDuration: 2, metrics.CleaningDuration: 2, metrics.Quarantines: 0,
	})
	refused()
	l.must(l.admin.Delete(t.Context(), &infrav1.CapstanCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "demo-infra"},
	}))
	l.until("the cluster is gone", func() bool { return !l.get("demo-infra", &infrav1.CapstanCluster{}) })
	if l.dock.backendsOf("demo") != nil {
		t.Error("the balancer is left (IC-53)")
	}
	watched()

	l.must(l.admin.DeleteAllOf(t.Context(), &infrav1.CapstanHost{}, client.InNamespace(ns)))
	l.until("hosts and identities are gone", func() bool {
		hosts, accounts := &infrav1.CapstanHostList{}, &corev1.ServiceAccountList{}
		l.must(l.admin.List(t.Context(), hosts))
		l.must(l.admin.List(t.Context(), accounts, client.InNamespace(ns)))
		return len(hosts.Items)+len(accounts.Items) == 0
	})
}

// TestLiveCrowd creates more machines than hosts at once. No host may go to two machines, and the machines without a
// host must get the hosts that others release.
func TestLiveCrowd(t *testing.T) {
	const hosts, machines = 20, 24
	l := startLive(t, hosts)
	l.cluster()
	start := time.Now()
	var names []string
	for n := range machines {
		names = append(names, fmt.Sprintf("w%02d", n))
		l.create(member(names[n], false)...)
	}
	var served, waiting []string
	l.until("all hosts are taken and the others wait", func() bool {
		served, waiting = nil, nil
		for _, name := range names {
			m := &infrav1.CapstanMachine{}
			l.get(name, m)
			if conditions.IsTrue(m, infrav1.ReadyCondition) {
				served = append(served, name)
			} else if conditions.GetReason(m, infrav1.ReadyCondition) == infrav1.NoHostMatchesReason {
				waiting = append(waiting, name)
			}
		}
		return len(served) == hosts && len(waiting) == machines-hosts
	})
	t.Logf("%d machines are ready after %v", hosts, time.Since(start).Round(time.Millisecond))
	taken := map[string]string{}
	for _, name := range served {
		m := &infrav1.CapstanMachine{}
		l.get(name, m)
		if other := taken[m.Status.Host]; other != "" {
			t.Errorf("host %s has the machines %s and %s", m.Status.Host, other, name)
		}
		taken[m.Status.Host] = name
	}
	l.delete(served[:len(waiting)]...)
	l.ready(waiting...)
}

// watchRevisions watches every revision of machines and clusters. The returned function stops the watch. That function
// also fails the test if a revision was provisioned but lacked fields that must be set at the same time (IM-53, IC-50,
// IC-51).
func (l *live) watchRevisions() (check func()) {
	l.Helper()
	machines, err := l.admin.Watch(l.Context(), &infrav1.CapstanMachineList{}, client.InNamespace(ns))
	l.must(err)
	clusters, err := l.admin.Watch(l.Context(), &infrav1.CapstanClusterList{}, client.InNamespace(ns))
	l.must(err)
	var seen sync.WaitGroup
	revisions, wrong := 0, []string{}
	var mu sync.Mutex
	seen.Go(func() {
		for e := range machines.ResultChan() {
			m, ok := e.Object.(*infrav1.CapstanMachine)
			mu.Lock()
			if revisions++; ok && ptr.Deref(m.Status.Initialization.Provisioned, false) &&
				(m.Spec.ProviderID == "" || len(m.Status.Addresses) == 0) {
				wrong = append(wrong, m.Name)
			}
			mu.Unlock()
		}
	})
	seen.Go(func() {
		for e := range clusters.ResultChan() {
			c, ok := e.Object.(*infrav1.CapstanCluster)
			mu.Lock()
			if revisions++; ok && ptr.Deref(c.Status.Initialization.Provisioned, false) &&
				(!c.Spec.ControlPlaneEndpoint.IsValid() || len(c.Status.FailureDomains) == 0) {
				wrong = append(wrong, c.Name)
			}
			mu.Unlock()
		}
	})
	return func() {
		machines.Stop()
		clusters.Stop()
		seen.Wait()
		if len(wrong) > 0 || revisions < 10 {
			l.Errorf("of %d revisions these are provisioned too early: %v", revisions, wrong)
		}
	}
}
