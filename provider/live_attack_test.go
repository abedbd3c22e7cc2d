//go:build linux

package provider

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// attack tries what an agent must not be able to do, using the agent's token of a host in use.
//
// Call the returned function when the host is released. That function waits until the token is refused, which may take
// as long as the API server caches valid tokens (10 s).
func (l *live) attack(host string) (refused func()) {
	l.Helper()
	agent := l.dock.client(host)
	other := "host-06"
	l.must(l.admin.Create(l.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: other + infrav1.BootstrapSecretSuffix},
	}))
	ctx := l.Context()
	own := &infrav1.CapstanHost{}
	l.must(agent.Get(ctx, types.NamespacedName{Namespace: ns, Name: host}, own))
	for name, try := range map[string]func() error{
		"read another host": func() error {
			return agent.Get(ctx, types.NamespacedName{Namespace: ns, Name: other}, &infrav1.CapstanHost{})
		},
		"list all hosts": func() error { return agent.List(ctx, &infrav1.CapstanHostList{}, client.InNamespace(ns)) },
		"read another host's bootstrap data": func() error {
			return agent.Get(ctx, types.NamespacedName{Namespace: ns, Name: other + infrav1.BootstrapSecretSuffix},
				&corev1.Secret{})
		},
		"read the offer to another host": func() error {
			return agent.Get(ctx, types.NamespacedName{Namespace: ns, Name: other + infrav1.OfferSecretSuffix}, &corev1.Secret{})
		},
		"list secrets": func() error { return agent.List(ctx, &corev1.SecretList{}, client.InNamespace(ns)) },
		"change its own claim": func() error {
			changed := own.DeepCopy()
			changed.Spec.Claim = nil
			return agent.Update(ctx, changed)
		},
		"report for another host": func() error {
			return agent.Status().Patch(ctx, &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: other}},
				client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Off"}}`)))
		},
		"renew the Lease of another host": func() error { return beat(ctx, agent, other) },
		"get a token of another host": func() error {
			_, err := tokenFor(ctx, agent, infrav1.IdentityPrefix+other)
			return err
		},
		"read a machine": func() error {
			return agent.Get(ctx, types.NamespacedName{Namespace: ns, Name: "cp"}, &infrav1.CapstanMachine{})
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			l.Errorf("an agent could %s: %v", name, err)
		}
	}
	// An agent can't change the spec by writing to the status.
	changed, labels := own.DeepCopy(), own.Labels
	changed.Spec.Claim = nil
	changed.Labels = map[string]string{"disk": "ssd"}
	err := agent.Status().Update(ctx, changed, client.FieldOwner("capstan-agent"))
	if err != nil && !apierrors.IsConflict(err) {
		l.Errorf("updating the status: %v", err)
	}
	own = &infrav1.CapstanHost{}
	l.get(host, own)
	if own.Spec.Claim == nil || !maps.Equal(own.Labels, labels) {
		l.Error("an agent changed its claim or labels through its status")
	}
	if err := renew(ctx, agent, own); err != nil {
		l.Errorf("an agent can't renew its token: %v", err)
	}
	if _, err := tokenFor(ctx, agent, infrav1.IdentityPrefix+host); !apierrors.IsForbidden(err) {
		l.Errorf("an agent could get a token that outlives its host's claim: %v", err)
	}
	return func() {
		l.Helper()
		l.until("the token of a host that was destroyed is refused", func() bool {
			return apierrors.IsUnauthorized(agent.Get(ctx, types.NamespacedName{Namespace: ns, Name: host},
				&infrav1.CapstanHost{}))
		})
	}
}
