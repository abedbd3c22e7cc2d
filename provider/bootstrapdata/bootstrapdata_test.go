package bootstrapdata

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func api(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func host(providerID string) *infrav1.CapstanHost {
	return &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "host-01", UID: "1234"},
		Spec: infrav1.CapstanHostSpec{Zone: "zone-a", Claim: &infrav1.HostClaim{
			Machine: "demo-abc", Cluster: "demo", ProviderID: providerID, Hostname: "demo-abc",
		}},
	}
}

func TestRead(t *testing.T) {
	secret := func(data map[string][]byte) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "data", Labels: map[string]string{infrav1.BootstrapDataLabel: ""},
		}, Data: data}
	}
	for name, c := range map[string]struct {
		objects []client.Object
		format  string
		fails   string
	}{
		"data with its format": {
			objects: []client.Object{secret(map[string][]byte{"value": []byte("x"), "format": []byte("ignition")})},
			format:  "ignition",
		},
		"data without a format": {
			objects: []client.Object{secret(map[string][]byte{"value": []byte("x")})}, format: "cloud-config",
		},
		"a secret without data says what to do": {
			objects: []client.Object{secret(nil)}, fails: "check the bootstrap provider",
		},
		"if there is no secret, the error is NotFound": {fails: "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			reader := api(t, c.objects...)
			data, err := Read(t.Context(), reader, reader.RESTMapper(), machine("data"))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || apierrors.IsNotFound(err) != (len(c.objects) == 0) {
					t.Errorf("error %v, want one with %q", err, c.fails)
				}
				return
			}
			if err != nil || string(data.Value) != "x" || string(data.Format) != c.format {
				t.Errorf("got %+v, %v", data, err)
			}
		})
	}
}

func TestDeliverReplacesWhatAnEarlierClaimLeft(t *testing.T) {
	c := api(t)
	read := func() *corev1.Secret {
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "host-01-bootstrap"}, s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	deliver := func(h *infrav1.CapstanHost, value string) *corev1.Secret {
		if err := Deliver(t.Context(), c, c, h, &Data{Value: []byte(value), Format: []byte("cloud-config")}); err != nil {
			t.Fatal(err)
		}
		return read()
	}
	first := deliver(host("capstan://default/host-01/first"), "one")
	if string(first.Data[ValueKey]) != "one" || first.OwnerReferences[0].UID != "1234" {
		t.Fatalf("delivered %+v", first)
	}
	want := `{"instance_id":"default/host-01/first","local_hostname":"demo-abc","provider_id":"capstan://default/host-01/first","host":"host-01","zone":"zone-a"}`
	if got := string(first.Data[MetadataKey]); got != want {
		t.Errorf("instance data %s\nwant          %s", got, want)
	}
	if again := deliver(host("capstan://default/host-01/first"), "one"); again.ResourceVersion != first.ResourceVersion {
		t.Error("delivering the same data again wrote the Secret again")
	}
	if second := deliver(host("capstan://default/host-01/second"), "two"); string(second.Data[ValueKey]) != "two" ||
		second.Annotations[ProviderIDAnnotation] != "capstan://default/host-01/second" {
		t.Errorf("the data of an earlier claim was not replaced: %+v", second)
	}
}

func TestRemoveLeavesTheDataOfAnotherClaim(t *testing.T) {
	h := host("capstan://default/host-01/now")
	c := api(t)
	if err := Deliver(t.Context(), c, c, h, &Data{Value: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	exists := func() bool {
		err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "host-01-bootstrap"}, &corev1.Secret{})
		return err == nil
	}
	if err := Remove(t.Context(), c, c, h, "capstan://default/host-01/before"); err != nil || !exists() {
		t.Errorf("after Remove for another claim: error %v, the Secret exists: %t", err, exists())
	}
	for range 2 { // the second call finds nothing, which is fine
		if err := Remove(t.Context(), c, c, h, "capstan://default/host-01/now"); err != nil || exists() {
			t.Errorf("after Remove for this claim: error %v, the Secret exists: %t", err, exists())
		}
	}
}
