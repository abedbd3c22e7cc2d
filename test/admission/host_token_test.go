//go:build linux

package admission

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/epoch"
	"github.com/capstan-dev/capstan/provider/identity"
)

// remembered is an upper limit for the time for which the API server caches a token.
const remembered = 30 * time.Second

// ask requests a token for an account.
func ask(
	ctx context.Context, c client.Client, namespace, account string, spec authenticationv1.TokenRequestSpec,
) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: spec}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	err := c.SubResource("token").Create(ctx, of, request)
	return request.Status.Token, err
}

// bound returns a request for a token that is bound to a Secret.
func bound(name string, changes ...func(*authenticationv1.TokenRequestSpec)) authenticationv1.TokenRequestSpec {
	spec := authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: name},
	}
	for _, change := range changes {
		change(&spec)
	}
	return spec
}

// lives sets the token's lifetime.
func lives(seconds int64) func(*authenticationv1.TokenRequestSpec) {
	return func(s *authenticationv1.TokenRequestSpec) { s.ExpirationSeconds = &seconds }
}

// isFor sets the token's audiences.
func isFor(audiences ...string) func(*authenticationv1.TokenRequestSpec) {
	return func(s *authenticationv1.TokenRequestSpec) { s.Audiences = audiences }
}

// bearer returns a client with a token.
func bearer(t *testing.T, token string) client.Client {
	t.Helper()
	c, err := client.New(&rest.Config{
		Host: server.Config.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: server.Config.CAData},
	}, client.Options{})
	must(t, err)
	return c
}

// enrolled creates a host in its first epoch, and returns it with a token of its account.
func enrolled(t *testing.T, namespace, name string) (*infrav1.CapstanHost, string) {
	t.Helper()
	h, _ := host(t, namespace, name)
	must(t, epoch.Begin(t.Context(), admin, as(t, manager), h))
	token, err := ask(t.Context(), admin, namespace, infrav1.IdentityPrefix+name, epoch.TokenRequest(h, time.Hour).Spec)
	must(t, err)
	return h, token
}

// nextEpoch acts like the manager: it ends the claim of a host, and begins the next epoch.
func nextEpoch(t *testing.T, h *infrav1.CapstanHost) {
	t.Helper()
	if h.Spec.Claim == nil {
		h.Spec.Claim = &infrav1.HostClaim{Machine: "m", MachineUID: "1", Cluster: "c", ProviderID: "p", Hostname: "m"}
		must(t, admin.Update(t.Context(), h))
	}
	h.Spec.Claim = nil
	h.Spec.Epoch++
	must(t, as(t, manager).Update(t.Context(), h))
	must(t, epoch.Begin(t.Context(), admin, as(t, manager), h))
}

// TestHostTokens: if a host or an administrator requests a token of the host's account, the token must be short-lived,
// valid only for this API server, and bound to an epoch of this host. The epoch must not have ended.
func TestHostTokens(t *testing.T) {
	ns := namespace(t)
	h, first := enrolled(t, ns, "h1")
	enrolled(t, ns, "h2")
	must(t, admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h1-bootstrap"}}))
	must(t, admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h1-epoch-1x"}}))
	nextEpoch(t, h)
	second, err := ask(t.Context(), bearer(t, first), ns, "host-h1", epoch.TokenRequest(h, 24*time.Hour).Spec)
	must(t, err)
	must(t, epoch.End(t.Context(), admin, as(t, manager), h, 0))
	bind(t, ns, "capstan-mover", "tenant")
	must(t, admin.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "tokens"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"},
		}},
	}))
	bind(t, ns, "tokens", "tenant")

	const day, self = 24 * 3600, "https://kubernetes.default.svc.cluster.local"
	for name, c := range map[string]struct {
		spec   authenticationv1.TokenRequestSpec
		says   string // in the refusal; empty if the token is granted
		absent bool   // the object that the token would be bound to does not exist
	}{
		"for a day and the current epoch":  {spec: bound("h1-epoch-1", lives(day))},
		"with the API server's defaults":   {spec: bound("h1-epoch-1")},
		"for the API server's audience":    {spec: bound("h1-epoch-1", isFor(self))},
		"for 136 years":                    {says: "a day at most", spec: bound("h1-epoch-1", lives(4294967296))},
		"for a second more than a day":     {says: "a day at most", spec: bound("h1-epoch-1", lives(day+1))},
		"for another audience":             {says: "this API server only", spec: bound("h1-epoch-1", isFor("vault"))},
		"for two audiences":                {says: "this API server only", spec: bound("h1-epoch-1", isFor(self, "b"))},
		"bound to nothing":                 {says: "h1-epoch-N"},
		"bound to the bootstrap Secret":    {says: "h1-epoch-N", spec: bound("h1-bootstrap")},
		"bound to Secret h1-epoch-1x":      {says: "h1-epoch-N", spec: bound("h1-epoch-1x")},
		"bound to another host's epoch":    {says: "h1-epoch-N", spec: bound("h2-epoch-0")},
		"bound to an epoch that has ended": {absent: true, spec: bound("h1-epoch-0")},
		"bound to a future epoch":          {absent: true, spec: bound("h1-epoch-2")},
		"bound to a Pod": {says: "h1-epoch-N", spec: bound("h1-epoch-1", func(s *authenticationv1.TokenRequestSpec) {
			s.BoundObjectRef.Kind = "Pod"
		})},
		"bound to a Secret with another uid": {absent: true,
			spec: bound("h1-epoch-1", func(s *authenticationv1.TokenRequestSpec) {
				s.BoundObjectRef.UID = "other"
			})},
	} {
		for who, asks := range map[string]client.Client{
			"the host": bearer(t, second), "an administrator": admin, "a tenant": as(t, "tenant"),
		} {
			t.Run(name+", asked by "+who, func(t *testing.T) {
				token, err := ask(t.Context(), asks, ns, "host-h1", c.spec)
				switch {
				case c.absent && (apierrors.IsNotFound(err) || apierrors.IsConflict(err)):
				case c.says != "" && !c.absent:
					refused(t, err, c.says)
				case c.absent || err != nil || token == "":
					t.Errorf("want a token, or an error about the missing object, got error %v", err)
				}
			})
		}
	}
}

// TestATokenEndsWithItsEpoch: the token of the first tenant's epoch can't read the second tenant's bootstrap data, even
// if the token has not expired. The agent's next token can.
func TestATokenEndsWithItsEpoch(t *testing.T) {
	ns := namespace(t)
	h, first := enrolled(t, ns, "h1")
	thief := bearer(t, first)
	kept, err := ask(t.Context(), thief, ns, "host-h1", epoch.TokenRequest(h, 24*time.Hour).Spec)
	must(t, err)
	thief = bearer(t, kept)
	nextEpoch(t, h)
	next, err := ask(t.Context(), bearer(t, first), ns, "host-h1", epoch.TokenRequest(h, time.Hour).Spec)
	must(t, err)
	must(t, epoch.End(t.Context(), admin, as(t, manager), h, 0))
	must(t, admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h1-bootstrap"},
		Data:       map[string][]byte{"value": []byte("of the second tenant")},
	}))
	read := func(c client.Client) error {
		return c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "h1-bootstrap"}, &corev1.Secret{})
	}
	for end := time.Now().Add(remembered); !apierrors.IsUnauthorized(read(thief)); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first tenant's token still reads the bootstrap data of the second tenant")
		}
	}
	if _, err := ask(t.Context(), thief, ns, "host-h1", bound("h1-epoch-1")); !apierrors.IsUnauthorized(err) {
		t.Errorf("the first tenant's token can be used to request another token: %v", err)
	}
	must(t, read(bearer(t, next)))
}

// TestHostTokenSecrets: nobody gets a token that never expires for a host's account.
func TestHostTokenSecrets(t *testing.T) {
	ns := namespace(t)
	enrolled(t, ns, "h1")
	secret := func(account string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, GenerateName: "token-", Annotations: map[string]string{corev1.ServiceAccountNameKey: account},
			},
			Type: corev1.SecretTypeServiceAccountToken,
		}
	}
	refused(t, admin.Create(t.Context(), secret("host-h1")), "never expire")
	other := secret("other")
	must(t, admin.Create(t.Context(), other))
	other.Annotations[corev1.ServiceAccountNameKey] = "host-h1"
	if err := admin.Update(t.Context(), other); err == nil {
		t.Error("the Secret with another account's token could be changed into one for the host's account")
	}
}

// TestAccountsOfOthersAreLeftAlone: an account is not a host's just because its name begins with host-.
func TestAccountsOfOthersAreLeftAlone(t *testing.T) {
	ns := namespace(t)
	enrolled(t, ns, "h1")
	mighty := "host-mighty"
	for _, name := range []string{"host-", "host-plain", mighty, "other"} {
		name = strings.TrimSuffix(name, "-")
		must(t, admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}))
	}
	must(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + mighty},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: mighty}},
	}))
	for _, name := range []string{"host", "host-plain", mighty, "other"} {
		_, err := ask(t.Context(), admin, ns, name, authenticationv1.TokenRequestSpec{
			ExpirationSeconds: ptr.To[int64](7 * 24 * 3600), Audiences: []string{"vault"},
		})
		if err != nil {
			t.Errorf("account %s: %v", name, err)
		}
		must(t, admin.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, Name: name + "-token", Annotations: map[string]string{corev1.ServiceAccountNameKey: name},
			},
			Type: corev1.SecretTypeServiceAccountToken,
		}))
	}
	must(t, admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "plain"}}))
}

// TestAudiencesOfOtherClusters: if our policy does not know an API server's own audience, an administrator can allow
// that audience.
func TestAudiencesOfOtherClusters(t *testing.T) {
	ns := namespace(t)
	h, token := enrolled(t, ns, "h1")
	const name = "https://container.example.com/v1/clusters/c1"
	must(t, admin.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "audiences"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hostaudiences"},
			ResourceNames: []string{name}, Verbs: []string{"use"},
		}},
	}))
	must(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "audiences"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "audiences"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}},
	}))
	spec := epoch.TokenRequest(h, time.Hour).Spec
	spec.Audiences = []string{name}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) { // a new Role takes a moment
		_, err := ask(t.Context(), bearer(t, token), ns, "host-h1", spec)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	spec.Audiences = []string{name + "/other"}
	_, err := ask(t.Context(), bearer(t, token), ns, "host-h1", spec)
	refused(t, err, "for this API server only")
}

// TestWhatIsNotTheHostsIsNotTakenForItsEpoch: a Secret that has the epoch's name, but was created by somebody else, is
// neither used nor deleted.
func TestWhatIsNotTheHostsIsNotTakenForItsEpoch(t *testing.T) {
	ns := namespace(t)
	h, _ := host(t, ns, "h1")
	foreign := func(change func(*corev1.Secret)) *corev1.Secret {
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h1-epoch-0", Labels: map[string]string{identity.Label: "h1"}},
			Type:       epoch.SecretType,
		}
		change(s)
		return s
	}
	owned := func(version, kind, name string) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: "other"}}
		}
	}
	for name, change := range map[string]func(*corev1.Secret){
		"a Secret of another type":         func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"a Secret without the label":       func(s *corev1.Secret) { s.Labels = nil },
		"a Secret owned by something else": owned("v1", "Pod", "h1"),
		"a Secret of another host":         owned(infrav1.GroupVersion.String(), "CapstanHost", "h2"),
	} {
		t.Run(name, func(t *testing.T) {
			s := foreign(change)
			must(t, admin.Create(t.Context(), s))
			if err := epoch.Begin(t.Context(), admin, as(t, manager), h); identity.Taken(err) == nil {
				t.Errorf("the epoch began with somebody else's Secret: %v", err)
			}
			must(t, epoch.End(t.Context(), admin, as(t, manager), h, 0))
			must(t, admin.Delete(t.Context(), s)) // this fails if the Secret is gone
		})
	}
}

// TestTheEpochOfAHostThatComesBack: the Secret that an earlier host of that name left behind is not reused, because
// somebody may have tokens bound to it. The Secret that a mover created for the host's arrival is reused, because the
// agent's token in the target is bound to it.
func TestTheEpochOfAHostThatComesBack(t *testing.T) {
	ns := namespace(t)
	h, _ := host(t, ns, "h1")
	secret := func() *corev1.Secret {
		s := &corev1.Secret{}
		must(t, admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "h1-epoch-0"}, s))
		return s
	}
	arriving := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "h1"}}
	m := as(t, manager)
	must(t, epoch.Begin(t.Context(), admin, m, arriving))
	made := secret()
	must(t, epoch.Begin(t.Context(), admin, m, arriving))
	must(t, epoch.Begin(t.Context(), admin, m, h))
	if now := secret(); now.UID != made.UID || len(now.OwnerReferences) != 1 || now.OwnerReferences[0].UID != h.UID {
		t.Errorf("the Secret made for the arrival is not the host's: %+v", now.ObjectMeta)
	}
	must(t, epoch.Begin(t.Context(), admin, m, arriving)) // as if h had moved away, and were coming back
	if now := secret(); now.UID == made.UID || len(now.OwnerReferences) != 0 {
		t.Errorf("the Secret of a host that has left is used again: %+v", now.ObjectMeta)
	}
	stale := h.DeepCopy()
	nextEpoch(t, h)
	must(t, epoch.End(t.Context(), admin, m, h, 0))
	if err := epoch.Begin(t.Context(), admin, m, stale); !apierrors.IsConflict(err) {
		t.Errorf("an epoch that has ended began again: %v", err)
	}
}
