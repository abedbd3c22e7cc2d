package inventory

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func host(name, supplier string, claimed bool) *infrav1.CapstanHost {
	h := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{infrav1.HostFinalizer}},
		Spec:       infrav1.CapstanHostSpec{Zone: "elsewhere", Supplier: supplier},
	}
	if claimed {
		h.Spec.Claim = &infrav1.HostClaim{Machine: "m"}
	}
	return h
}

func TestEnsure(t *testing.T) {
	for name, c := range map[string]struct {
		has  []client.Object
		n    int
		want []string // name, zone; - for one that is being deleted
	}{
		"an empty inventory, zones in turn": {n: 4, want: []string{"host-01 a", "host-02 b", "host-03 a", "host-04 b"}},
		"growing keeps what is there":       {has: []client.Object{host("host-01", "dock", true)}, n: 2, want: []string{"host-01 elsewhere", "host-02 b"}},
		"a gap is filled":                   {has: []client.Object{host("host-02", "dock", false)}, n: 2, want: []string{"host-01 a", "host-02 elsewhere"}},
		"shrinking takes free hosts only": {
			has: []client.Object{host("host-01", "dock", false), host("host-02", "dock", true), host("host-03", "dock", false)}, n: 1,
			want: []string{"host-01 elsewhere", "host-02 elsewhere", "host-03 -"},
		},
		"none at all": {has: []client.Object{host("host-01", "dock", false)}, n: 0, want: []string{"host-01 -"}},
		"owned hosts and hosts with other names are nobody's business here": {
			has: []client.Object{host("host-07", "", false), host("host-007", "dock", false), host("rack", "dock", false), host("host-", "dock", false)}, n: 0,
			want: []string{"host- elsewhere", "host-007 elsewhere", "host-07 elsewhere", "rack elsewhere"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := infrav1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.has...).Build()
			for range 2 { // the second time changes nothing
				if err := Ensure(t.Context(), api, "default", c.n, []string{"a", "b"}); err != nil {
					t.Fatal(err)
				}
				list := &infrav1.CapstanHostList{}
				if err := api.List(t.Context(), list); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, h := range list.Items {
					zone := h.Spec.Zone
					if !h.DeletionTimestamp.IsZero() {
						zone = "-"
					}
					got = append(got, h.Name+" "+zone)
				}
				if !slices.Equal(got, c.want) {
					t.Fatalf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

func TestEnsureRefusesNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		n     int
		zones []string
	}{
		"a negative number": {-1, []string{"a"}}, "too many": {Max + 1, []string{"a"}}, "no zone": {1, nil},
	} {
		if err := Ensure(t.Context(), nil, "default", c.n, c.zones); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
