package epoch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
)

func hostWith(uid types.UID, epoch int64) *infrav1.CapstanHost {
	return &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: uid},
		Spec:       infrav1.CapstanHostSpec{Epoch: epoch},
	}
}

func api(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// secret returns the Secret of epoch 3, or nil if there is none.
func secret(t *testing.T, c client.Client) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	switch err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a-epoch-3"}, s); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return s
}

// TestBegin checks that a correct Secret stays, because tokens are bound to its uid; that a Secret of an earlier host
// is replaced; and that a Secret of somebody else stays and is named in the error.
func TestBegin(t *testing.T) {
	of := func(uid types.UID, change func(*corev1.Secret)) *corev1.Secret {
		s := secretFor(hostWith(uid, 3), 3)
		s.UID = "there"
		if change != nil {
			change(s)
		}
		return s
	}
	for name, c := range map[string]struct {
		host  types.UID
		there *corev1.Secret
		kept  bool
		taken bool
	}{
		"no Secret": {host: "1"},
		"no Secret, and the host has not arrived yet":            {host: ""},
		"the host's Secret":                                      {host: "1", there: of("1", nil), kept: true},
		"a Secret made before the host arrived":                  {host: "1", there: of("", nil), kept: true},
		"a Secret made before, and the host has not arrived yet": {host: "", there: of("", nil), kept: true},
		"a Secret of an earlier host":                            {host: "1", there: of("0", nil)},
		"a Secret of another type": {
			host: "1", there: of("1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }), kept: true, taken: true,
		},
		"a Secret without our label": {
			host: "1", there: of("1", func(s *corev1.Secret) { s.Labels = nil }), kept: true, taken: true,
		},
		"a Secret that somebody else owns, too": {
			host: "1", kept: true, taken: true,
			there: of("1", func(s *corev1.Secret) {
				s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: "x", UID: "x"})
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			host := hostWith(c.host, 3)
			if c.host != "" {
				objects = append(objects, host.DeepCopy())
			}
			if c.there != nil {
				objects = append(objects, c.there)
			}
			a := api(t, objects...)
			err := Begin(t.Context(), a, a, host)
			if (identity.Taken(err) != nil) != c.taken || !c.taken && err != nil {
				t.Fatal(err)
			}
			s := secret(t, a)
			if s == nil || (s.UID == "there") != c.kept {
				t.Fatalf("the Secret is %v, want it kept: %t", s, c.kept)
			}
			if !c.taken && c.host != "" && (len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != c.host) {
				t.Errorf("the owners of the Secret are %v", s.OwnerReferences)
			}
		})
	}
}

// TestBeginLooksAtThePresentEpoch checks that the Secret of an ended epoch is not recreated.
func TestBeginLooksAtThePresentEpoch(t *testing.T) {
	for name, now := range map[string]*infrav1.CapstanHost{
		"another epoch has begun": hostWith("1", 4), "another host has the name": hostWith("2", 3),
	} {
		a := api(t, now)
		if err := Begin(t.Context(), a, a, hostWith("1", 3)); !apierrors.IsConflict(err) || secret(t, a) != nil {
			t.Errorf("%s: error %v, Secret %v", name, err, secret(t, a))
		}
	}
}

func TestEnd(t *testing.T) {
	host := hostWith("1", 4)
	a := api(t, secretFor(host, 3))
	for range 2 { // the second call finds nothing
		if err := End(t.Context(), a, a, host, 3); err != nil || secret(t, a) != nil {
			t.Fatalf("error %v, Secret %v", err, secret(t, a))
		}
	}
	theirs := secretFor(host, 3)
	theirs.Labels = nil
	a = api(t, theirs)
	if err := End(t.Context(), a, a, host, 3); err != nil || secret(t, a) == nil {
		t.Errorf("somebody else's Secret: error %v, Secret %v", err, secret(t, a))
	}
}

// TestTokenRequest checks that a token is bound to the Secret of the epoch and has only the API server's own audience.
func TestTokenRequest(t *testing.T) {
	spec := TokenRequest(hostWith("1", 3), time.Hour).Spec
	if *spec.ExpirationSeconds != 3600 || spec.BoundObjectRef.Name != "a-epoch-3" ||
		spec.BoundObjectRef.Kind != "Secret" || len(spec.Audiences) != 0 {
		t.Errorf("the request is %+v", spec)
	}
}
