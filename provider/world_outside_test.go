package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/patch"
)

type supplier struct{ w *world }

func (s supplier) Versions() []string { return []string{"v1.36.3", "v1.35.4"} }

func (s supplier) PowerOn(_ context.Context, name string, config []byte) (string, error) {
	return "10.231.1.1", s.w.call("power on "+name, true, func() error {
		h := s.w.host(name)
		if h.Spec.Claim == nil || h.Spec.Claim.Released {
			s.w.t.Errorf("host %s is powered on without a claim", name)
		}
		if !strings.Contains(string(config), "token: token") {
			s.w.t.Errorf("the agent of host %s gets no token:\n%s", name, config)
		}
		s.w.running[name] = true
		return nil
	})
}

func (s supplier) Destroy(_ context.Context, name string) error {
	return s.w.call("destroy "+name, s.w.running[name], func() error {
		if h := s.w.host(name); h.Spec.Claim != nil && !h.Spec.Claim.Released {
			s.w.t.Errorf("host %s is destroyed while machine %s has it", name, h.Spec.Claim.Machine)
		}
		delete(s.w.running, name)
		return nil
	})
}

func (s supplier) List(context.Context) (names []string, err error) {
	err = s.w.call("list the supplier's hosts", false,
		func() error { names = slices.Sorted(maps.Keys(s.w.running)); return nil })
	return names, err
}

type balancer struct{ w *world }

func (b balancer) Ensure(_ context.Context, name types.NamespacedName) (string, int32, error) {
	return "10.231.16.1", 6443, b.w.call("ensure balancer", b.w.backends[name.Name] == nil, func() error {
		if b.w.backends[name.Name] == nil {
			b.w.backends[name.Name] = []string{}
		}
		return nil
	})
}

func (b balancer) SetBackends(_ context.Context, name types.NamespacedName, to []string) error {
	return b.w.call(fmt.Sprintf("set backends %v", to), true, func() error {
		if b.w.backends[name.Name] == nil {
			return fmt.Errorf("no balancer %s", name)
		}
		b.w.backends[name.Name] = to
		return nil
	})
}

func (b balancer) Delete(_ context.Context, name types.NamespacedName) error {
	return b.w.call("delete balancer", true, func() error { delete(b.w.backends, name.Name); return nil })
}

// agents plays the agents: they send heartbeats, report, bootstrap and clean.
func (w *world) agents() {
	for _, h := range w.allHosts() {
		if w.dead[h.Name] || h.Spec.Supplier != "" && !w.running[h.Name] {
			continue
		}
		lease := &coordinationv1.Lease{}
		if err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(&h), lease); err != nil {
			continue
		}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now()}
		w.must(w.api.Update(w.t.Context(), lease))
		before := h.DeepCopy()
		if h.Status.Agent == nil {
			h.Status.Agent = &infrav1.AgentReport{Address: address(h.Name), KubernetesVersions: []string{"v1.36.3"}}
		}
		w.agentRenews(&h)
		if c := h.Spec.Claim; c != nil {
			w.agentBootstraps(&h, c)
			if r := h.Status.Agent.Cleaning; c.Released && (r == nil || r.ProviderID != c.ProviderID ||
				!slices.Equal(r.Leftovers, w.stuck[h.Name])) {
				h.Status.Agent.Cleaning = &infrav1.CleaningReport{
					ProviderID: c.ProviderID, Done: true, Leftovers: w.stuck[h.Name], Baseline: w.compares(c),
				}
			}
		}
		w.must(patch.Status(w.t.Context(), w.api, before, &h, patch.Unlocked))
	}
}

// agentRenews uses the agent's token to get a token of the current epoch, and reports this epoch. The first token comes
// from the person who enrolls the host.
func (w *world) agentRenews(h *infrav1.CapstanHost) {
	if h.Spec.Supplier != "" || !w.exists(infrav1.EpochSecret(h.Name, h.Spec.Epoch), &corev1.Secret{}) {
		return
	}
	if has, enrolled := w.tokens[h.UID]; enrolled && has != h.Spec.Epoch {
		if !w.exists(infrav1.EpochSecret(h.Name, has), &corev1.Secret{}) {
			w.t.Errorf("the token of host %s for epoch %d ended before its agent had one for epoch %d", h.Name, has,
				h.Spec.Epoch)
		}
	}
	w.tokens[h.UID] = h.Spec.Epoch
	h.Status.Agent.Epoch = &h.Spec.Epoch
}

func (w *world) agentBootstraps(h *infrav1.CapstanHost, c *infrav1.HostClaim) {
	if c.Proof == infrav1.ProofCompare && c.Baseline == "" && c.BootstrapReady && !c.Released && !w.oldAgents {
		h.Status.Agent.Bootstrap = &infrav1.BootstrapReport{
			ProviderID: c.ProviderID, Phase: infrav1.BootstrapRunning, Step: "baseline", Baseline: baselineOf(h.Name),
		}
		return // the agent waits until the claim has the baseline
	}
	if r := h.Status.Agent.Bootstrap; r != nil && r.Step == "baseline" {
		h.Status.Agent.Bootstrap = nil
	}
	if !c.BootstrapReady || c.Released || h.Status.Agent.Bootstrap != nil &&
		h.Status.Agent.Bootstrap.ProviderID == c.ProviderID {
		return
	}
	if h.Status.Agent.Bootstrap = w.journal[c.ProviderID]; h.Status.Agent.Bootstrap != nil {
		return
	}
	secret := &corev1.Secret{}
	if !w.exists(h.Name+infrav1.BootstrapSecretSuffix, secret) ||
		!strings.Contains(string(secret.Data["metadata"]), c.ProviderID) {
		return // the data for this claim has not arrived yet
	}
	if string(secret.Data["value"]) != "data of "+c.Machine ||
		!strings.Contains(string(secret.Data["metadata"]), c.ProviderID) {
		w.t.Errorf("host %s has the wrong data for machine %s: %s, %s", h.Name, c.Machine, secret.Data["value"],
			secret.Data["metadata"])
	}
	h.Status.Agent.Bootstrap = &infrav1.BootstrapReport{ProviderID: c.ProviderID, Phase: infrav1.BootstrapSucceeded}
	if c.Proof == infrav1.ProofCompare && !w.oldAgents {
		h.Status.Agent.Bootstrap.Baseline = baselineOf(h.Name)
	}
	if message := w.fails[h.Name]; message != "" {
		h.Status.Agent.Bootstrap.Phase, h.Status.Agent.Bootstrap.Step, h.Status.Agent.Bootstrap.Message =
			infrav1.BootstrapFailed, "runcmd 1/2", message
	}
	w.journal[c.ProviderID] = h.Status.Agent.Bootstrap
}

// baselineOf returns the digest of a host's state before its machine.
func baselineOf(host string) string { return (host + strings.Repeat("_", 43))[:43] }

// compares returns the digest of the baseline with which an agent has compared its host.
func (w *world) compares(c *infrav1.HostClaim) string {
	if w.exchanged || w.oldAgents {
		return ""
	}
	return c.Baseline
}

// address returns the address of a host, for example 10.231.1.7 for host-07.
func address(hostName string) string {
	var n int
	if _, err := fmt.Sscanf(hostName[strings.LastIndex(hostName, "-")+1:], "%d", &n); err != nil {
		return ""
	}
	return fmt.Sprintf("10.231.1.%d", n)
}
