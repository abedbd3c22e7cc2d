package describe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/topology"
)

var blue = client.ObjectKey{Namespace: "team", Name: "blue"}

// blueCluster returns a cluster with one machine. The creation of the cluster has reached the given step. If step is
// empty, the cluster is up as soon as its machine is.
func blueCluster(step Step) *clusterv1.Cluster {
	c := topology.Request{Name: blue.Name, Namespace: blue.Namespace, Version: "v1.36.3", ControlPlane: 1}.Cluster()
	if step == StepHooks {
		c.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterTopologyReconciledCondition, Status: metav1.ConditionFalse,
			Message: "cluster needs 6 hosts",
		}}
		return c
	}
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "g", Kind: "k", Name: "n"}
	if step == StepEndpoint {
		return c
	}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	c.Status.Initialization.ControlPlaneInitialized = ptr.To(step != StepControlPlane)
	return c
}

func blueMachine() *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: blue.Namespace, Name: "blue-1", Labels: map[string]string{clusterv1.ClusterNameLabel: blue.Name},
	}}
	m.Spec.Version, m.Status.NodeRef.Name = "v1.36.3", "blue-1"
	m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue}}
	return m
}

// TestWait: progress is reported step by step, and temporary failures of the server are tolerated.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := world(t, func(c client.Client, get int) error {
			for n, step := range map[int]Step{4: StepEndpoint, 5: StepControlPlane, 6: StepNodes} {
				if get != n {
					continue
				}
				next := blueCluster(step)
				return errors.Join(c.Delete(t.Context(), next.DeepCopy()), c.Create(t.Context(), next))
			}
			if get == 2 || get == 3 {
				return errServer
			}
			if get == 7 {
				return c.Create(t.Context(), blueMachine())
			}
			return nil
		}, blueCluster(StepHooks))
		var got []string
		err := Wait(t.Context(), c, blue, func(p Progress) { got = append(got, string(p.Step)+": "+p.Detail) })
		want := []string{
			"lifecycle hooks let the cluster through: cluster needs 6 hosts", "control plane endpoint: ",
			"control plane initialized: waiting for machines", "all Nodes Ready: 0 of 1; waiting for machines", ": ",
		}
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%v, got\n%s\nwant\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestWaitGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		before       func(client.Client, int) error
		cluster      *clusterv1.Cluster
		want, advice string
	}{
		"the time is up": {
			nil, blueCluster(StepHooks),
			`stopped waiting for cluster blue at "lifecycle hooks let the cluster through": cluster needs 6 hosts`,
			"--watch",
		},
		"the server always fails": {
			func(client.Client, int) error { return errServer }, blueCluster(StepHooks),
			"watching cluster blue: the server does not answer", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := Wait(ctx, world(t, c.before, c.cluster), blue, func(Progress) {})
				if err == nil || err.Error() != c.want || !strings.Contains(hint.Of(err), c.advice) {
					t.Errorf("got %v with hint %q", err, hint.Of(err))
				}
			})
		})
	}
}

func TestWaitDeleted(t *testing.T) {
	deleting := blueCluster("")
	deleting.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ClusterDeletingCondition, Status: metav1.ConditionTrue, Message: "* 1 Machine",
	}}
	for name, c := range map[string]struct {
		gone int // the first request that finds the cluster gone
		want string
	}{
		"the cluster is deleted in time":     {3, ""},
		"the cluster is not deleted in time": {1000, "stopped waiting for the deletion of cluster blue: 1 Machine"},
		"the first request finds no cluster": {1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var last string
				err := WaitDeleted(ctx, world(t, func(w client.Client, get int) error {
					if get != c.gone {
						return nil
					}
					return w.Delete(t.Context(), blueCluster(""))
				}, deleting.DeepCopy()), blue, func(detail string) { last = detail })
				if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
					t.Errorf("got %v, want %q", err, c.want)
				}
				if c.gone > 1 && last != "1 Machine" {
					t.Errorf("the last report is %q", last)
				}
			})
		})
	}
}

// TestWatch: a tree is written whenever it changes, and the deletion of the cluster is reported.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := world(t, func(c client.Client, get int) error {
			switch get {
			case 3:
				return c.Create(t.Context(), &infrav1.CapstanCluster{ObjectMeta: metav1.ObjectMeta{
					Namespace: blue.Namespace, Name: "blue-x",
					Labels: map[string]string{clusterv1.ClusterNameLabel: blue.Name},
				}})
			case 4:
				return errServer
			case 6:
				return c.Delete(t.Context(), blueCluster(""))
			}
			return nil
		}, blueCluster(""))
		if err := Watch(t.Context(), c, blue, &out); err != nil {
			t.Error(err)
		}
		text := out.String()
		if strings.Count(text, "Cluster/blue ") != 2 || strings.Count(text, "CapstanCluster/blue-x") != 1 ||
			!strings.HasSuffix(text, "\ncluster blue is gone\n") {
			t.Errorf("written\n%s", text)
		}
	})
}

// TestRead: Read finds each object of the cluster and no object of another cluster.
func TestRead(t *testing.T) {
	host := func(name, cluster string) *infrav1.CapstanHost {
		h := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: name}}
		h.Spec.Claim = &infrav1.HostClaim{Cluster: cluster, Machine: name + "-machine"}
		return h
	}
	other := blueMachine()
	other.Name, other.Labels = "green-1", map[string]string{clusterv1.ClusterNameLabel: "green"}
	c := world(t, nil, blueCluster(""), blueMachine(), other, host("a", "blue"), host("b", "green"))
	o, err := Read(t.Context(), c, blue)
	if err != nil || len(o.Machines) != 1 || o.Machines[0].Name != "blue-1" || len(o.Hosts) != 1 ||
		o.Hosts["a-machine"] == nil || o.Infra != nil {
		t.Errorf("got %+v, %v", o, err)
	}
}
