//go:build linux

package routes_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/nettest"
	"github.com/capstan-dev/capstan/kube/network/routes"
)

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func nodeOf(h *host) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node.Name}}
	for _, r := range h.node.Ranges {
		n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, r.String())
	}
	n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: h.node.Name},
		{Type: corev1.NodeInternalIP, Address: h.node.Address.String()},
	}
	return n
}

// TestRun checks that Run follows the Nodes of the cluster, repairs routes that others damage, and keeps the routes
// when it returns.
func TestRun(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	one, two := newHost(t, dock, 1, 1), newHost(t, dock, 1, 2)
	client := fake.NewClientset()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := &lines{}
	ended := make(chan error, 1)
	go func() {
		ended <- network.Within(one.Path(), func() error {
			return routes.Run(ctx, client, "n1", routes.Options{
				Repair: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil)),
			})
		})
	}()
	has := func(what string) func() bool { return func() bool { return strings.Contains(one.Dump(), what) } }
	hasNot := func(what string) func() bool { return func() bool { return !has(what)() } }
	wait := func(what string, done func() bool) {
		t.Helper()
		hosttest.WaitFor(t, what, done, func() string { return one.Dump() + log.String() })
	}
	nodes := client.CoreV1().Nodes()
	create := func(n *corev1.Node) {
		t.Helper()
		if _, err := nodes.Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	young := nodeOf(one) // its kubelet has not reported its address yet
	addresses := young.Status.Addresses
	young.Status.Addresses = nil
	create(young)
	create(nodeOf(two))
	young.Status.Addresses = addresses
	if _, err := nodes.Update(ctx, young, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	route := fmt.Sprintf("route %s table 254 on %s", two.node.Ranges[0], network.Tunnel)
	wait("the route to exist", has(route))
	one.RemoveLinks(network.Tunnel)
	wait("the route to be repaired", has(route))
	bad := nodeOf(two)
	bad.Name = "bad"
	create(bad)
	wait("the refusal to be logged", func() bool {
		return strings.Contains(log.String(), "its address 10.231.1.2 is that of Node")
	})
	if err := nodes.Delete(ctx, "bad", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := nodes.Delete(ctx, "n2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("the route to disappear", hasNot(route))
	create(nodeOf(two))
	wait("the route to exist again", has(route))
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run has not ended")
	}
	if !has(route)() {
		t.Error("the end of Run removed the route")
	}
	if err := routes.Run(ctx, client, "", routes.Options{}); err == nil {
		t.Error("Run accepts an empty Node name")
	}
}
