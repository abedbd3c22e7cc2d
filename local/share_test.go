package local

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/hint"
)

func TestShares(t *testing.T) {
	host := func(namespace, name, supplier string, claim *infrav1.HostClaim) client.Object {
		return &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: infrav1.CapstanHostSpec{Supplier: supplier, Claim: claim}}
	}
	machine := func(namespace, name string) client.Object {
		return &infrav1.CapstanMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	c := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(
		host("default", "host-01", "dock", nil), host("default", "host-02", "dock", &infrav1.HostClaim{Machine: "m"}),
		host("default", "rack", "", nil), host("gone", "host-03", "dock", nil),
		machine("default", "m"), machine("waits", "a"), machine("waits", "b"),
	).Build()
	got, err := Shares(t.Context(), c)
	want := []Share{{"default", 2, 1, 0}, {"gone", 1, 0, 0}, {"waits", 0, 0, 2}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := Shares(t.Context(), fake.NewClientBuilder().Build()); err == nil ||
		hint.Of(err) != "run: capstan status" {
		t.Errorf("error %v, with the hint %q", err, hint.Of(err))
	}
}
