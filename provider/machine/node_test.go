package machine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// nodesOf records what it is asked to delete, and returns err.
type nodesOf struct {
	err     error
	deleted []string
}

func (n *nodesOf) Delete(_ context.Context, cluster client.ObjectKey, name, providerID string) error {
	n.deleted = append(n.deleted, fmt.Sprintf("%s %s %s", cluster, name, providerID))
	return n.err
}

// without removes an object from the world.
func without(name string) change {
	return func(all map[string]client.Object) { delete(all, name) }
}

func TestRemoveNode(t *testing.T) {
	initialized := on("cluster", func(c *clusterv1.Cluster) {
		c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	})
	had := machineIs(func(m *infrav1.CapstanMachine) { m.Status.Host = "host-01" })
	asked := []string{"default/demo w1 capstan://default/host-01/uid-of-w"}
	for name, c := range map[string]struct {
		edits   []change
		err     error
		after   time.Duration // since the deletion began
		asked   []string
		answer  step.Answer
		waiting string
		event   string
	}{
		"the bootstrap failed after the kubelet had started": {edits: []change{initialized, had}, asked: asked},
		"Cluster API knows the Node and deletes it": {edits: []change{initialized, had,
			on("owner", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "w1" })}},
		"no host was claimed":               {edits: []change{initialized}},
		"the cluster has no API server yet": {edits: []change{had}},
		"the Machine is gone":               {edits: []change{initialized, had, without("owner")}},
		"the Cluster is gone":               {edits: []change{initialized, had, without("cluster")}},
		"the Cluster is being deleted, too": {edits: []change{initialized, had, on("cluster", func(c *clusterv1.Cluster) {
			c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{"a/b"}
		})}},
		"the API server of the cluster does not answer": {
			edits: []change{initialized, had}, err: errInjected, after: nodeLimit, asked: asked,
			answer: step.StopFor(nodePause), waiting: "API server of cluster demo does not answer",
		},
		"the API server of the cluster has not answered for long": {
			edits: []change{initialized, had}, err: errInjected, after: nodeLimit + time.Second, asked: asked,
			event: "Warning NodeLeft Node w1 of this machine may still exist in cluster demo: injected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, world(append(c.edits, deleted)...)...)
			nodes := &nodesOf{err: c.err}
			f.Nodes = nodes
			s := f.scope()
			f.clock.SetTime(s.capstan.DeletionTimestamp.Add(c.after))
			answer, err := f.removeNode(t.Context(), s)
			if err != nil || answer != c.answer || fmt.Sprint(nodes.deleted) != fmt.Sprint(c.asked) {
				t.Errorf("answer %+v, %v; asked for %q, want %q", answer, err, nodes.deleted, c.asked)
			}
			if (s.waiting == "") != (c.waiting == "") || !strings.Contains(s.waiting, c.waiting) {
				t.Errorf("the deletion waits for %q, want %q", s.waiting, c.waiting)
			}
			event := ""
			select {
			case event = <-f.Recorder.(*events.FakeRecorder).Events:
			default:
			}
			if event != c.event {
				t.Errorf("event %q, want %q", event, c.event)
			}
		})
	}
}

// TestRemoveNodeComesLast checks that the Node is removed after the release, because a running kubelet could register
// it again.
func TestRemoveNodeComesLast(t *testing.T) {
	f := newFixture(t, world(deleted, claimed("host-01"), machineIs(func(m *infrav1.CapstanMachine) {
		m.Status.Host = "host-01"
	}), on("cluster", func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = ptr.To(true) }))...)
	nodes := &nodesOf{}
	f.Nodes = nodes
	pass := func() {
		t.Helper()
		if err := f.pass(); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	if len(nodes.deleted) > 0 || f.machine("w1") == nil {
		t.Fatalf("before the host is clean: deleted %q", nodes.deleted)
	}
	host := f.host("host-01")
	host.Spec.Claim = nil
	if err := f.api.Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	pass()
	if len(nodes.deleted) != 1 || f.machine("w1") != nil {
		t.Errorf("once the host is clean: deleted %q, machine %v", nodes.deleted, f.machine("w1"))
	}
}
