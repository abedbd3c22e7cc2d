package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/server"
	"github.com/capstan-dev/capstan/runtime/upgradeplan"
)

// planner is the name of the handler that answers GenerateUpgradePlan.
const planner = "plan"

// available are the available Kubernetes releases.
var available = []string{"v1.32.9", "v1.33.5", "v1.34.4", "v1.35.4", "v1.36.3", "v1.36.4"}

// script is an extension with a handler for each lifecycle hook except BeforeClusterDelete, which blocks or fails when
// the test says so, and a handler that makes upgrade plans.
type script struct {
	*hooktest.Extension
	mu     sync.Mutex
	blocks map[string]bool
	fails  map[string]bool
	made   []call
}

// call is a call that the extension received.
type call struct {
	hook   string
	passed bool
	// the fields of the request
	Cluster                                                       clusterv1.Cluster
	FromKubernetesVersion, ToKubernetesVersion, KubernetesVersion string
	ControlPlaneUpgrades, WorkersUpgrades                         []struct{ Version string }
}

// String returns the step of an upgrade that the call is about.
func (c call) String() string {
	words := []string{c.hook, c.FromKubernetesVersion, c.ToKubernetesVersion, c.KubernetesVersion}
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), " ")
}

// left returns the remaining steps of the upgrade, for the control plane and for workers.
func (c call) left() (controlPlane, workers string) {
	join := func(steps []struct{ Version string }) string {
		var all []string
		for _, step := range steps {
			all = append(all, step.Version)
		}
		return strings.Join(all, " ")
	}
	return join(c.ControlPlaneUpgrades), join(c.WorkersUpgrades)
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{blocks: map[string]bool{}, fails: map[string]bool{}}
	s.Extension = hooktest.Start(t,
		play(s, hook.BeforeClusterCreate), play(s, hook.AfterControlPlaneInitialized),
		play(s, hook.BeforeClusterUpgrade), play(s, hook.AfterClusterUpgrade),
		play(s, hook.BeforeControlPlaneUpgrade), play(s, hook.AfterControlPlaneUpgrade),
		play(s, hook.BeforeWorkersUpgrade), play(s, hook.AfterWorkersUpgrade),
		server.Handle(hook.GenerateUpgradePlan, planner, upgradeplan.Generate(
			func(context.Context, *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error) {
				return available, nil
			})))
	return s
}

// play returns a handler that blocks or fails while the script says so.
func play[Req, Resp any](s *script, of hook.Hook[Req, Resp]) server.Handler {
	name := of.Descriptor().ID.Name
	return server.Handle(of, strings.ToLower(name), func(_ context.Context, request *Req, _ *Resp) error {
		text, err := json.Marshal(request)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c := call{hook: name, passed: !s.blocks[name] && !s.fails[name]}
		if err := json.Unmarshal(text, &c); err != nil {
			return err
		}
		s.made = append(s.made, c)
		switch {
		case s.fails[name]:
			return errors.New(name + " is broken")
		case s.blocks[name]:
			return server.Wait(time.Second, name+" waits")
		}
		return nil
	})
}

// block makes hooks block from now on.
func (s *script) block(hooks ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range hooks {
		s.blocks[name] = true
	}
}

// fail makes a hook fail from now on.
func (s *script) fail(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails[name] = true
}

// pass lets a hook pass from now on.
func (s *script) pass(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks[name], s.fails[name] = false, false
}

// calls returns the calls of some hooks, or of all hooks if none is named.
func (s *script) calls(hooks ...string) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []call
	for _, c := range s.made {
		if len(hooks) == 0 || slices.Contains(hooks, c.hook) {
			found = append(found, c)
		}
	}
	return found
}

// steps returns the calls that let the Cluster through, in order.
func (s *script) steps() []string {
	var steps []string
	for _, c := range s.calls() {
		if c.passed {
			steps = append(steps, c.String())
		}
	}
	return steps
}
