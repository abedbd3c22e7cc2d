package credential

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/internal/hint"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func good() Limits {
	return Limits{Namespace: "default", Uses: 1, Expires: noon.Add(time.Hour)}
}

func TestCheck(t *testing.T) {
	many := map[string]string{}
	for i := range maxLabels + 1 {
		many["a"+string(rune('a'+i%26))+string(rune('a'+i/26))] = "b"
	}
	for name, c := range map[string]struct {
		change func(*Limits)
		want   string
	}{
		"only the required limits": {func(*Limits) {}, ""},
		"all limits": {func(l *Limits) {
			l.Name, l.Zone, l.Uses, l.Labels = "rack1-*", "Rack.1", 20, map[string]string{"disk": "ssd"}
		}, ""},
		"an attribute of the zone": {
			func(l *Limits) { l.Labels = map[string]string{"zone.infrastructure.capstan.dev/power": "a"} }, "",
		},
		"no namespace":  {func(l *Limits) { l.Namespace = "" }, "not a namespace"},
		"zero uses":     {func(l *Limits) { l.Uses = 0 }, "the number of uses can't be 0"},
		"too many uses": {func(l *Limits) { l.Uses = MaxUses + 1 }, "the number of uses can't be"},
		"two uses but only one name": {
			func(l *Limits) { l.Name, l.Uses = "rack1", 2 }, "can't share the name rack1",
		},
		"a name with a dot":                      {func(l *Limits) { l.Name = "a.b" }, "not the name"},
		"a pattern with a bracket":               {func(l *Limits) { l.Name = "rack[1" }, "not the name"},
		"a zone that is not a valid label value": {func(l *Limits) { l.Zone = "a/b" }, "not a zone"},
		"a credential that has expired":          {func(l *Limits) { l.Expires = noon }, "already have expired"},
		"a credential that is valid too long": {
			func(l *Limits) { l.Expires = noon.Add(MaxLife + time.Second) }, "30 days",
		},
		"an invalid label key":   {func(l *Limits) { l.Labels = map[string]string{"a b": "c"} }, "is not a label"},
		"an invalid label value": {func(l *Limits) { l.Labels = map[string]string{"a": "b c"} }, "is not a label"},
		"a label of Cluster API": {
			func(l *Limits) { l.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": "c"} }, "is reserved for programs",
		},
		"a label of a subdomain of Cluster API": {
			func(l *Limits) { l.Labels = map[string]string{"topology.cluster.x-k8s.io/owned": "c"} }, "is reserved for programs",
		},
		"a label of Kubernetes": {
			func(l *Limits) { l.Labels = map[string]string{"node-role.kubernetes.io/x": ""} }, "is reserved for programs",
		},
		"a label of Capstan": {
			func(l *Limits) { l.Labels = map[string]string{"infrastructure.capstan.dev/host": "x"} }, "is reserved for programs",
		},
		"too many labels": {func(l *Limits) { l.Labels = many }, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			l := good()
			c.change(&l)
			err := l.Check(noon)
			if (err == nil) != (c.want == "") ||
				err != nil && (!strings.Contains(err.Error(), c.want) || hint.Of(err) == "") {
				t.Errorf("got %v with the hint %q, want %q", err, hint.Of(err), c.want)
			}
		})
	}
}

func cluster(objects ...client.Object) client.Client {
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	return fake.NewClientBuilder().WithObjects(objects...).Build()
}

// TestLife follows a credential through its life: created, found, used, used up, revoked.
func TestLife(t *testing.T) {
	c, ctx := cluster(), t.Context()
	l := good()
	l.Uses = 2
	text, made, err := Create(ctx, c, l, noon)
	if err != nil {
		t.Fatal(err)
	}
	secrets := &corev1.SecretList{}
	if err := c.List(ctx, secrets); err != nil || len(secrets.Items) != 1 {
		t.Fatalf("Secrets are %v, %v", secrets.Items, err)
	}
	if data, err := json.Marshal(secrets.Items[0]); err != nil || strings.Contains(string(data), text[18:]) {
		t.Errorf("the stored object contains the credential: %s, error %v", data, err)
	}
	for name, data := range secrets.Items[0].Data {
		if strings.Contains(string(data), text[len(text)-26:]) {
			t.Errorf("the stored object contains the credential's secret in its field %s", name)
		}
	}
	found, err := Find(ctx, c, text)
	if err != nil || found.ID != made.ID || found.StateAt(noon) != Valid {
		t.Fatalf("got %+v, %v", found, err)
	}
	stale := *found
	first := Use{Host: "rack1", Key: "k1", Time: noon}
	if err := found.Spend(ctx, c, first); err != nil {
		t.Fatal(err)
	}
	if err := stale.Spend(ctx, c, Use{Host: "rack2", Key: "k2", Time: noon}); !apierrors.IsConflict(err) {
		t.Errorf("two uses at the same time: got error %v, want a conflict", err)
	}
	if found, err = Find(ctx, c, text); err != nil || len(found.Used) != 1 {
		t.Fatalf("got %+v, %v", found, err)
	}
	if err := found.Spend(ctx, c, first); err != nil {
		t.Errorf("a second use by the same host: %v", err)
	}
	if err := found.Spend(ctx, c, Use{Host: "rack2", Key: "k2", Time: noon}); err != nil {
		t.Fatal(err)
	}
	list, err := List(ctx, c, "default", noon)
	if err != nil || len(list) != 1 || list[0].State != UsedUp || len(list[0].Used) != 2 {
		t.Errorf("the list is %+v, %v", list, err)
	}
	if data, err := json.Marshal(list); err != nil || strings.Contains(string(data), list[0].hash) {
		t.Errorf("the list shows the hash: %s, %v", data, err)
	}
	if list, err := List(ctx, c, "other", noon); err != nil || len(list) != 0 {
		t.Errorf("the list of another namespace is %+v, error %v", list, err)
	}
	if list, err = List(ctx, c, "", l.Expires); err != nil || list[0].State != Expired {
		t.Errorf("the list after the credential expired is %+v, error %v", list, err)
	}
	late, err := Find(ctx, c, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := Revoke(ctx, c, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(ctx, c, text); !errors.Is(err, ErrUnknown) {
		t.Errorf("looking for a revoked credential: got error %v, want ErrUnknown", err)
	}
	if err := late.Spend(ctx, c, Use{Host: "rack3", Key: "k3"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("using a credential that was revoked since it was found: got error %v, want ErrUnknown", err)
	}
	if err := Revoke(ctx, c, made.ID); err == nil || hint.Of(err) == "" {
		t.Errorf("revoking a credential twice: got error %v, want one with a hint", err)
	}
}

// TestFindRefuses: an error does not reveal whether a credential exists or is nearly right.
func TestFindRefuses(t *testing.T) {
	c, ctx := cluster(), t.Context()
	text, _, err := Create(ctx, c, good(), noon)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := enrolment.NewCredential()
	for name, try := range map[string]string{
		"an empty text":                     "",
		"a credential that was not created": other,
		"the right id with another secret":  text[:len(text)-26] + other[len(other)-26:],
		"another id with the right secret":  other[:20] + text[20:],
		"a path in place of the id":         "capstan1.../../x." + text[len(text)-26:],
		"the secret without the id":         text[len(text)-26:],
		"the credential with a line end":    text + "\n",
		"the credential in capitals":        strings.ToUpper(text),
	} {
		if _, err := Find(ctx, c, try); err == nil || err.Error() != ErrUnknown.Error() {
			t.Errorf("%s: got error %v, want ErrUnknown", name, err)
		}
	}
}

// TestSecretsOfOthersAreNoCredentials: a Secret of another type, namespace or content is not a credential, whatever its
// name and labels are.
func TestSecretsOfOthersAreNoCredentials(t *testing.T) {
	text, id := enrolment.NewCredential()
	_, hash, err := enrolment.ParseCredential(text)
	if err != nil {
		t.Fatal(err)
	}
	right, err := encode(id, hash, good())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*corev1.Secret){
		"of another type":               func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"in another namespace":          func(s *corev1.Secret) { s.Namespace = "default" },
		"with broken limits":            func(s *corev1.Secret) { s.Data[limitsKey] = []byte("{") },
		"with broken uses":              func(s *corev1.Secret) { s.Data[usesKey] = []byte("{") },
		"without a hash":                func(s *corev1.Secret) { delete(s.Data, hashKey) },
		"with a hash that is too short": func(s *corev1.Secret) { s.Data[hashKey] = []byte(hash[:63]) },
	} {
		s := right.DeepCopy()
		s.Data = maps.Clone(right.Data)
		change(s)
		c := cluster(s)
		if _, err := Find(t.Context(), c, text); !errors.Is(err, ErrUnknown) {
			t.Errorf("a Secret %s: got error %v, want ErrUnknown", name, err)
		}
		if list, err := List(t.Context(), c, "", noon); err != nil || len(list) != 0 {
			t.Errorf("a Secret %s: the list is %+v, error %v", name, list, err)
		}
	}
	if _, err := Find(t.Context(), cluster(right), text); err != nil {
		t.Errorf("the unchanged Secret is not found: %v", err)
	}
}

func TestCreateSweepsAndRefuses(t *testing.T) {
	c, ctx := cluster(), t.Context()
	for range 2 {
		if _, _, err := Create(ctx, c, good(), noon); err != nil {
			t.Fatal(err)
		}
	}
	late := good()
	late.Expires = noon.Add(48 * time.Hour)
	if _, _, err := Create(ctx, c, late, noon.Add(26*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if list, err := List(ctx, c, "", noon); err != nil || len(list) != 1 {
		t.Errorf("Create left credentials that ended long ago: %+v, error %v", list, err)
	}
	nowhere := good()
	nowhere.Namespace = "nowhere"
	if _, _, err := Create(ctx, c, nowhere, noon); err == nil || hint.Of(err) == "" {
		t.Errorf("a credential for a namespace that does not exist: got error %v, want one with a hint", err)
	}
	if _, _, err := Create(ctx, c, Limits{}, noon); err == nil {
		t.Error("a credential without limits was created")
	}
}
