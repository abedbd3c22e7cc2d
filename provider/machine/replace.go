package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/step"
)

// Bounds of the pause between replacements while the machines of a group keep failing. The first failed machine is
// replaced at once.
const (
	replaceAgainAfter  = 10 * time.Second
	replaceAgainAtMost = 10 * time.Minute
)

// replace asks for the replacement of a machine whose bootstrap has failed for good. It sets Cluster API's annotation
// on the Machine, so that a MachineHealthCheck does not wait for a Node that will never appear. The MachineHealthCheck
// and the Machine's owner decide whether and when to replace the machine.
//
// If bootstrap data fails on every host, hosts would be claimed and cleaned forever. So the machines of a group wait
// longer each time, until one succeeds.
func (r *Reconciler) replace(ctx context.Context, s *scope) (step.Answer, error) {
	machine := s.machine
	if machine == nil || !machine.DeletionTimestamp.IsZero() || annotations.HasRemediateMachine(machine) ||
		metav1.GetControllerOf(machine) == nil {
		return step.Stop(), nil
	}
	if wait := r.replacing.ask(groupOf(machine), s.capstan.UID, r.Clock.Now()); wait > 0 {
		return step.StopFor(wait), nil
	}
	before := machine.DeepCopy()
	machine = machine.DeepCopy()
	metav1.SetMetaDataAnnotation(&machine.ObjectMeta, clusterv1.RemediateMachineAnnotation, "")
	if err := r.Client.Patch(ctx, machine, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return step.Answer{}, fmt.Errorf("requesting the replacement of Machine %s: %w", machine.Name, err)
	}
	r.Recorder.Eventf(s.capstan, machine, "Normal", infrav1.ReplacementRequestedEvent, "Replace",
		"annotated Machine %s with %s: a MachineHealthCheck that covers the Machine replaces it",
		machine.Name, clusterv1.RemediateMachineAnnotation)
	return step.Stop(), nil
}

// group identifies machines created from the same template: those of a control plane, or of one MachineDeployment or
// MachineSet.
type group struct {
	namespace, cluster, name string
	controlPlane             bool
}

func groupOf(machine *clusterv1.Machine) group {
	g := group{namespace: machine.Namespace, cluster: machine.Spec.ClusterName}
	if g.controlPlane = util.IsControlPlaneMachine(machine); g.controlPlane {
		return g
	}
	for _, label := range []string{clusterv1.MachineDeploymentNameLabel, clusterv1.MachineSetNameLabel} {
		if g.name = machine.Labels[label]; g.name != "" {
			return g
		}
	}
	if owner := metav1.GetControllerOf(machine); owner != nil {
		g.name = owner.Name
	}
	return g
}

// replacing records when the next machine of a group may be replaced. The limit is best effort: a restarted process
// starts without records. The zero value is ready to use.
type replacing struct {
	mu     sync.Mutex
	groups map[group]turn
}

// turn records the last replacement in a group.
type turn struct {
	uid   types.UID // of the CapstanMachine
	pause time.Duration
	next  time.Time
}

// ask returns how long the replacement of a machine must wait. If it returns 0, the replacement is recorded.
func (p *replacing) ask(g group, uid types.UID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, failed := p.groups[g]
	switch {
	case failed && last.uid == uid: // the write failed, or the cache does not show it yet
		return 0
	case failed && now.Before(last.next):
		return last.next.Sub(now)
	}
	if p.groups == nil {
		p.groups = map[group]turn{}
	}
	for other, t := range p.groups {
		if now.Sub(t.next) > replaceAgainAtMost {
			delete(p.groups, other)
		}
	}
	pause := replaceAgainAfter
	if failed {
		pause = min(2*last.pause, replaceAgainAtMost)
	}
	p.groups[g] = turn{uid: uid, pause: pause, next: now.Add(pause)}
	return 0
}

// succeeded resets the pause of a group, because the bootstrap data of its machines works.
func (p *replacing) succeeded(g group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.groups, g)
}
