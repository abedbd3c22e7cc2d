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

// Pauses between the replacements of machines of one group that fail one after the other. The first is replaced at
// once.
const (
	replaceAgainAfter  = 10 * time.Second
	replaceAgainAtMost = 10 * time.Minute
)

// replace asks for the replacement of a machine whose bootstrap has failed for good: with upstream's annotation on the
// Machine, so that a MachineHealthCheck that covers it does not wait for a Node that never comes. Whether and when the
// machine is replaced is decided there, and by the Machine's owner.
//
// Data that fails on every host would have hosts claimed and cleaned without end: machines of one group wait longer
// each time, until one succeeds.
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
		return step.Answer{}, fmt.Errorf("asking for the replacement of Machine %s: %w", machine.Name, err)
	}
	r.Recorder.Eventf(s.capstan, machine, "Normal", infrav1.ReplacementRequestedEvent, "Replace",
		"annotated Machine %s with %s: a MachineHealthCheck that covers it has it replaced",
		machine.Name, clusterv1.RemediateMachineAnnotation)
	return step.Stop(), nil
}

// group names machines that are made alike: those of a control plane, or of one MachineDeployment or MachineSet.
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

// replacing remembers when the next machine of a group may be replaced. It slows down, and promises nothing: a process
// that starts has forgotten it. The zero value lets everything pass.
type replacing struct {
	mu     sync.Mutex
	groups map[group]turn
}

// turn is the last replacement in a group.
type turn struct {
	uid   types.UID // of the CapstanMachine
	pause time.Duration
	next  time.Time
}

// ask returns how long the replacement of a machine has to wait; 0: not at all, and then it is noted.
func (p *replacing) ask(g group, uid types.UID, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, failed := p.groups[g]
	switch {
	case failed && last.uid == uid: // the write failed, or has not been seen
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

// succeeded ends the streak of a group: the data of its machines is in order.
func (p *replacing) succeeded(g group) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.groups, g)
}
