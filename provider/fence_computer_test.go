package provider

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/patch"
)

// computer is an owned computer with an agent that handles claims by the rules of agent/work. Its disk and its
// processes survive whatever happens to the network, the agent and the plane.
type computer struct {
	w    *world
	name string
	// runs are the machines that run on it, by provider id.
	runs map[string]bool
	// journal records what the agent has done, by provider id.
	journal map[string]*record
	// uid is the uid of the CapstanHost that the agent's token belongs to, and token is the epoch of that token.
	uid   types.UID
	token int64
	// view is the state that the agent saw last; nil if none yet.
	view *infrav1.CapstanHost
	// deaf: nothing reaches the computer. mute: nothing leaves it. off: the agent does not run.
	deaf, mute, off bool
	// slow: the agent only looks and reports in this step.
	slow bool
}

type record struct {
	seen    map[types.UID]int64 // epochs of the claim, by CapstanHost
	phase   infrav1.BootstrapPhase
	cleaned bool
}

// enroll does what a person does with a credential: the agent gets a token of the host's current epoch.
func (c *computer) enroll() {
	host := &infrav1.CapstanHost{}
	if !c.w.exists(c.name, host) || !c.w.exists(infrav1.EpochSecret(c.name, host.Spec.Epoch), &corev1.Secret{}) {
		return
	}
	c.uid, c.token, c.view = host.UID, host.Spec.Epoch, nil
}

// identified reports whether the API server accepts the agent's token.
func (c *computer) identified() bool {
	secret := &corev1.Secret{}
	return c.uid != "" && c.w.exists(infrav1.EpochSecret(c.name, c.token), secret) &&
		len(secret.OwnerReferences) == 1 && secret.OwnerReferences[0].UID == c.uid
}

// step does what the agent does in one turn.
func (c *computer) step() {
	if c.off || !c.identified() {
		return
	}
	host := &infrav1.CapstanHost{}
	if !c.deaf && c.w.exists(c.name, host) {
		c.view = host
	}
	if c.view == nil {
		return
	}
	if !c.slow {
		c.work()
		c.renew()
	}
	if !c.mute {
		c.report()
	}
}

// renew gets a token of the epoch that the agent saw last. It needs the network in both directions.
func (c *computer) renew() {
	epoch := c.view.Spec.Epoch
	if !c.deaf && !c.mute && c.w.exists(infrav1.EpochSecret(c.name, epoch), &corev1.Secret{}) {
		c.token = epoch
	}
}

// work does what the CapstanHost asks for, as the agent saw it last.
func (c *computer) work() {
	claim := c.view.Spec.Claim
	mine := ""
	if claim != nil {
		mine = claim.ProviderID
		if r := c.journal[mine]; r != nil {
			r.seen[c.view.UID] = c.view.Spec.Epoch
		}
	}
	if claim != nil && claim.Released {
		for id := range c.journal {
			c.clean(id)
		}
		if c.journal[mine] == nil {
			c.journal[mine] = &record{seen: map[types.UID]int64{c.view.UID: c.view.Spec.Epoch}, cleaned: true}
		}
		return
	}
	held := false
	for id, r := range c.journal {
		switch {
		case id == mine:
		case r.cleaned:
			delete(c.journal, id)
		case c.ended(id, r):
			c.clean(id)
		default:
			held = true
		}
	}
	if claim != nil && claim.BootstrapReady {
		c.bootstrap(claim, held)
	}
}

// ended reports whether a claim has ended, by the rule of agent/work.
func (c *computer) ended(id string, r *record) bool {
	if c.view.Annotations[infrav1.AcceptAnnotation] == id || c.view.Annotations[infrav1.AcceptedAnnotation] == id {
		return true
	}
	epoch, here := r.seen[c.view.UID]
	return !here || c.view.Spec.Epoch > epoch
}

func (c *computer) clean(id string) {
	delete(c.runs, id)
	c.journal[id].cleaned = true
}

// bootstrap runs the data of a claim once. It needs the API server.
func (c *computer) bootstrap(claim *infrav1.HostClaim, held bool) {
	id := claim.ProviderID
	if c.journal[id] != nil || c.deaf || c.mute {
		return
	}
	r := &record{seen: map[types.UID]int64{c.view.UID: c.view.Spec.Epoch}, phase: infrav1.BootstrapSucceeded}
	if held {
		r.phase, r.cleaned = infrav1.BootstrapFailed, true
		c.journal[id] = r
		return
	}
	secret := &corev1.Secret{}
	if !c.w.exists(c.name+infrav1.BootstrapSecretSuffix, secret) ||
		!strings.Contains(string(secret.Data["metadata"]), id) {
		return
	}
	if string(secret.Data["value"]) != "data of "+claim.Machine {
		c.w.t.Errorf("host %s has the data of a machine other than %s: %s", c.name, claim.Machine, secret.Data["value"])
	}
	c.journal[id] = r
	c.runs[id] = true
}

// report sends the heartbeat and the agent's report.
func (c *computer) report() {
	host, lease := &infrav1.CapstanHost{}, &coordinationv1.Lease{}
	if !c.w.exists(c.name, host) || !c.w.exists(c.name, lease) {
		return
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: c.w.clock.Now()}
	c.w.must(c.w.api.Update(c.w.t.Context(), lease))
	before := host.DeepCopy()
	r := &infrav1.AgentReport{
		Address: address(c.name), KubernetesVersions: []string{"v1.36.3"}, Epoch: &c.token, Carries: c.carries(),
	}
	if claim := c.view.Spec.Claim; claim != nil {
		if own := c.journal[claim.ProviderID]; own != nil && own.phase != "" {
			r.Bootstrap = &infrav1.BootstrapReport{ProviderID: claim.ProviderID, Phase: own.phase}
		}
		if own := c.journal[claim.ProviderID]; claim.Released && own != nil && own.cleaned {
			r.Cleaning = &infrav1.CleaningReport{ProviderID: claim.ProviderID, Done: true}
		}
	} else if r.Carries != "" {
		r.Cleaning = &infrav1.CleaningReport{ProviderID: r.Carries, Done: true, Leftovers: []string{"the machine itself"}}
	}
	host.Status.Agent = r
	c.w.must(client.IgnoreNotFound(patch.Status(c.w.t.Context(), c.w.api, before, host, patch.Unlocked)))
}

func (c *computer) carries() string {
	for id, r := range c.journal {
		if !r.cleaned {
			return id
		}
	}
	return ""
}
