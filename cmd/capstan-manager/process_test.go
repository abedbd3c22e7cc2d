//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// patience limits each wait of these tests.
const patience = 90 * time.Second

// asManager makes this test binary run as the manager, with the variable's lines as arguments.
const asManager = "CAPSTAN_MANAGER_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(asManager); ok {
		os.Exit(run(ctrl.SetupSignalHandler(), strings.Split(args, "\n"), os.Stderr))
	}
	os.Exit(m.Run())
}

// cluster is an API server for managers in separate processes.
type cluster struct {
	*testing.T
	api        client.Client
	kubeconfig string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	ours, err := apiserver.Capstan()
	if err != nil {
		t.Fatal(err)
	}
	core, err := apiserver.Core("clusters", "machines")
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start(apiserver.Options{CRDs: append(ours, core...)})
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	scheme := runtime.NewScheme()
	c.must(errors.Join(clientgoscheme.AddToScheme(scheme), provider.AddToScheme(scheme)))
	c.api, err = client.New(server.Config, client.Options{Scheme: scheme})
	c.must(err)
	c.asInstalled(server.Config)
	for _, name := range []string{"a", "b", "c"} {
		c.must(c.api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) until(what string, ok func() bool) {
	c.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		if ok() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			tick.Stop()
			c.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// process is one manager.
type process struct {
	*exec.Cmd
	output *bytes.Buffer
	ended  chan struct{}
}

func (c *cluster) start(args ...string) *process {
	c.Helper()
	args = append(args, "--leader-elect", "--leader-elect-namespace=capstan-system", "--leader-elect-lease-duration=4s",
		"--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms", "--health-addr=127.0.0.1:0",
		"--metrics-bind=0")
	p := &process{Cmd: exec.Command(os.Args[0]), output: &bytes.Buffer{}, ended: make(chan struct{})}
	p.Env = append(os.Environ(), asManager+"="+strings.Join(args, "\n"), "KUBECONFIG="+c.kubeconfig)
	p.Stdout, p.Stderr = p.output, p.output
	c.must(p.Start())
	go func() {
		_ = p.Wait() // the state says how it exited
		close(p.ended)
	}()
	c.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if c.Failed() {
			c.Logf("manager %v:\n%s", args, p.output)
		}
	})
	return p
}

// stop stops a manager cleanly.
func (c *cluster) stop(p *process) {
	c.Helper()
	c.must(p.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
	case <-time.After(patience):
		c.Fatal("the manager doesn't stop")
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		c.Errorf("the manager exited with status %d", code)
	}
}

// lease returns the holder of a Lease, and how often it changed hands.
func (c *cluster) lease(name string) (holder string, transitions int32) {
	l := &coordinationv1.Lease{}
	err := c.api.Get(c.Context(), client.ObjectKey{Namespace: "capstan-system", Name: name}, l)
	c.must(client.IgnoreNotFound(err))
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseTransitions != nil {
		transitions = *l.Spec.LeaseTransitions
	}
	return holder, transitions
}

// host registers an owned host.
func (c *cluster) host(namespace, name string, labels map[string]string) {
	c.Helper()
	c.must(c.api.Create(c.Context(), &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       infrav1.CapstanHostSpec{Zone: "zone-a"},
	}))
}

// reconciled reports whether a manager has reconciled a host.
func (c *cluster) reconciled(namespace, name string) bool {
	c.Helper()
	h := &infrav1.CapstanHost{}
	c.must(c.api.Get(c.Context(), client.ObjectKey{Namespace: namespace, Name: name}, h))
	return slices.Contains(h.Finalizers, infrav1.HostFinalizer)
}

// TestOneReplicaLeads kills the leading replica: another one takes over and continues. When that one stops cleanly, it
// releases the Lease at once.
func TestOneReplicaLeads(t *testing.T) {
	c := newCluster(t)
	first := c.start()
	c.host("a", "one", nil)
	c.until("the first replica has reconciled a host", func() bool { return c.reconciled("a", "one") })
	leader, _ := c.lease(electionID)
	second := c.start()
	c.host("a", "two", nil)
	c.until("one of the replicas has reconciled another host", func() bool { return c.reconciled("a", "two") })
	if holder, transitions := c.lease(electionID); holder != leader || transitions != 0 {
		t.Errorf("the Lease passed from %s to %s, although its holder still runs", leader, holder)
	}
	c.must(first.Process.Kill())
	<-first.ended
	c.host("a", "three", nil)
	c.until("the second replica has taken over", func() bool { return c.reconciled("a", "three") })
	if holder, transitions := c.lease(electionID); holder == leader || transitions != 1 {
		t.Errorf("the Lease is held by %s after %d transitions; the killed one was %s", holder, transitions, leader)
	}
	c.stop(second)
	if holder, _ := c.lease(electionID); holder != "" {
		t.Errorf("a manager that stopped cleanly still holds the Lease: %s", holder)
	}
}

// TestEndsInTheMiddleOfWork repeatedly stops a manager while its queues are full: no queue keeps it from stopping.
func TestEndsInTheMiddleOfWork(t *testing.T) {
	c := newCluster(t)
	for round := range 4 {
		name := func(i int) string { return fmt.Sprintf("host-%d-%d", round, i) }
		for i := range 200 {
			c.host("a", name(i), nil)
		}
		manager := c.start()
		c.until("the manager has reconciled hosts", func() bool {
			return slices.ContainsFunc([]int{0, 100, 199}, func(i int) bool { return c.reconciled("a", name(i)) })
		})
		c.stop(manager)
	}
}

// TestShards runs one manager for a namespace, and one for a label in another namespace. Both are leaders at the same
// time, and neither touches the other's objects.
func TestShards(t *testing.T) {
	c := newCluster(t)
	label := map[string]string{clusterv1.WatchLabel: "x"}
	for _, namespace := range []string{"a", "b", "c"} {
		c.host(namespace, "plain", nil)
		c.host(namespace, "labelled", label)
	}
	byNamespace, byLabel := c.start("--namespace=a"), c.start("--namespace=b", "--watch-filter=x")
	want := map[string]bool{"a/plain": true, "a/labelled": true, "b/labelled": true}
	c.until("each shard has reconciled its own hosts", func() bool {
		for key := range want {
			namespace, name, _ := strings.Cut(key, "/")
			if !c.reconciled(namespace, name) {
				return false
			}
		}
		return true
	})
	c.host("a", "late", nil)
	c.host("b", "late", label)
	c.until("both still work", func() bool { return c.reconciled("a", "late") && c.reconciled("b", "late") })
	for _, key := range []string{"b/plain", "c/plain", "c/labelled"} {
		namespace, name, _ := strings.Cut(key, "/")
		if c.reconciled(namespace, name) {
			t.Errorf("host %s was reconciled, although it is in no shard", key)
		}
		t.Attr("rule", "CT-50")
	}
	c.stop(byNamespace)
	c.stop(byLabel)
}
