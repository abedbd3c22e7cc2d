package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/bootstrapdata"
	"github.com/capstan-dev/capstan/provider/step"
)

func TestDeliver(t *testing.T) { // IM-49
	earlier := func(h *infrav1.CapstanHost) { h.Spec.Claim.BootstrapReady = false }
	oldData := func(all map[string]client.Object) {
		deliveredTo("host-01")(all)
		all["delivered"].SetAnnotations(map[string]string{bootstrapdata.ProviderIDAnnotation: "an earlier claim"})
	}
	id := machineIs(func(m *infrav1.CapstanMachine) { m.Spec.ProviderID = "capstan://a/b/c" })
	const getSecret = "get Secret"
	for name, c := range map[string]struct {
		edits     []change
		delivered bool
		calls     []string
	}{
		"the data is not there": {
			edits: []change{claimed("host-01")}, delivered: true,
			calls: []string{getSecret, getSecret, "create Secret"},
		},
		"the data is there": {
			edits:     []change{claimed("host-01"), deliveredTo("host-01")},
			delivered: true, calls: []string{getSecret},
		},
		"the data of an earlier claim is there": {
			edits: []change{claimed("host-01"), oldData}, delivered: true,
			calls: []string{getSecret, getSecret, "create Secret", getSecret, "update Secret"},
		},
		"the bootstrap runs: the data stays": {
			edits:     []change{claimed("host-01", reported(infrav1.BootstrapRunning)), deliveredTo("host-01")},
			delivered: true, calls: []string{getSecret},
		},
		"the bootstrap ended: nothing is delivered again": {
			edits: []change{claimed("host-01", reported(infrav1.BootstrapSucceeded))},
		},
		"the bootstrap failed: nothing is delivered again (IM-50)": {
			edits: []change{claimed("host-01", reported(infrav1.BootstrapFailed))},
		},
		"the machine has an instance": {edits: []change{claimed("host-01"), id}},
		"a claim of an earlier version lets the agent start only after the delivery": {
			edits: []change{claimed("host-01", earlier)}, delivered: true,
			calls: []string{getSecret, getSecret, "create Secret", "patch CapstanHost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial{
				objects: worldOf(c.edits...), run: (*Reconciler).deliver, calls: c.calls,
				with: func(f *fixture, s *scope) { // the step requires a host
					if s.host == nil {
						s.host = f.host("host-01")
					}
				},
				check: func(t *testing.T, f *fixture, _ *scope, answer step.Answer) {
					secret := get(f, "host-01"+infrav1.BootstrapSecretSuffix, &corev1.Secret{})
					claim := f.host("host-01").Spec.Claim
					if (secret != nil) != c.delivered || !claim.BootstrapReady || answer.Stopped() {
						t.Fatalf("Secret %v, claim %+v, stopped %t", secret, claim, answer.Stopped())
					}
					if secret == nil {
						return
					}
					of := secret.Annotations[bootstrapdata.ProviderIDAnnotation]
					if string(secret.Data["value"]) != "data" || of != claim.ProviderID {
						t.Errorf("the Secret of claim %s holds %q", of, secret.Data["value"])
					}
				},
			}.do(t)
		})
	}
}
