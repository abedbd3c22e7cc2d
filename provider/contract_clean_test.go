package provider

import (
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// provedWorld returns a world with a machine on a host that requires this proof of cleanness.
func provedWorld(t *testing.T, proof infrav1.CleaningProof, change func(*world)) (w *world, name string) {
	t.Helper()
	w = newWorld(t, join(hosts(1, ""), demo(infrav1.LoadBalancerLocal), member("w1", false))...)
	w.proof = proof
	change(w)
	w.restart()
	w.settle()
	w.readyIs(w.machine("w1"), "True Ready")
	return w, w.machine("w1").Status.Host
}

// released deletes the machine.
func (w *world) released() {
	w.t.Helper()
	w.must(w.api.Delete(w.t.Context(), w.machine("w1")))
	w.settle()
}

// accept declares a host clean, as a person does after reading the host's condition.
func (w *world) accept(name string) {
	w.t.Helper()
	edit(w, w.host(name), func(h *infrav1.CapstanHost) {
		h.Annotations = map[string]string{infrav1.AcceptAnnotation: h.Spec.Claim.ProviderID}
	})
	w.settle()
	h := w.host(name)
	w.readyIs(h, "True Ready")
	if h.Spec.Claim != nil || h.Annotations[infrav1.AcceptAnnotation] != "" {
		w.t.Errorf("an accepted host has the claim %+v and the annotations %v", h.Spec.Claim, h.Annotations)
	}
}

func TestHostThatIsCompared(t *testing.T) {
	w, name := provedWorld(t, infrav1.ProofCompare, func(*world) {})
	if c := w.host(name).Spec.Claim; c.Proof != infrav1.ProofCompare || c.Baseline != baselineOf(name) {
		t.Fatalf("the claim is %+v", c)
	}
	w.released()
	if h := w.host(name); h.Status.Phase != infrav1.HostAvailable || w.exists("w1", &infrav1.CapstanMachine{}) {
		t.Errorf("the host is %s", h.Status.Phase)
	}
}

func TestHostThatIsNotCompared(t *testing.T) {
	for why, change := range map[string]func(*world){
		"the baseline on the host was replaced": func(w *world) { w.exchanged = true },
		"the agent is too old":                  func(w *world) { w.oldAgents = true },
	} {
		t.Run(why, func(t *testing.T) {
			w, name := provedWorld(t, infrav1.ProofCompare, change)
			w.released()
			h := w.host(name)
			w.readyIs(h, "False NotCompared")
			if h.Status.Phase != infrav1.HostQuarantined || h.Spec.Claim == nil {
				t.Errorf("the host is %s, its claim %+v", h.Status.Phase, h.Spec.Claim)
			}
			message := conditions.Get(w.machine("w1"), infrav1.ReadyCondition).Message
			if !strings.Contains(message, infrav1.AcceptAnnotation+"="+h.Spec.Claim.ProviderID) {
				t.Errorf("the message of the machine is %q", message)
			}
			w.accept(name)
			if w.exists("w1", &infrav1.CapstanMachine{}) {
				t.Error("the machine waits for a host that was accepted")
			}
		})
	}
}

func TestHostThatIsToBeInstalledAnew(t *testing.T) {
	w, name := provedWorld(t, infrav1.ProofCompare, func(w *world) {
		edit(w, w.host("host-01"), func(h *infrav1.CapstanHost) { h.Spec.Cleaning.Proof = infrav1.ProofReimage })
	})
	w.released()
	if w.exists("w1", &infrav1.CapstanMachine{}) {
		t.Error("the machine waits until somebody reinstalls its host")
	}
	w.readyIs(w.host(name), "False ReimageNeeded")
	edit(w, w.host(name), func(h *infrav1.CapstanHost) {
		h.Annotations = map[string]string{infrav1.AcceptAnnotation: "of another claim"}
	})
	w.settle()
	w.readyIs(w.host(name), "False ReimageNeeded")
	w.accept(name)
}

// A host with leftovers is used again once somebody has accepted them.
func TestHostWithLeftoversIsAccepted(t *testing.T) {
	w, name := provedWorld(t, infrav1.ProofTrust, func(*world) {})
	w.stuck[name] = []string{"mount /mnt/left"}
	w.released()
	w.readyIs(w.host(name), "False LeftoversFound")
	w.accept(name)
}
