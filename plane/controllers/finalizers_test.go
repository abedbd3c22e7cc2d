package controllers

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestNoFinalizerIsLost adds two finalizers like two Cluster API controllers that have read the same MachineSet.
func TestNoFinalizerIsLost(t *testing.T) {
	scheme, err := newScheme(nil)
	if err != nil {
		t.Fatal(err)
	}
	ms := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "workers"}}
	c := finalizerClient{fake.NewClientBuilder().WithScheme(scheme).WithObjects(ms).Build()}
	read := func() *clusterv1.MachineSet {
		t.Helper()
		got := &clusterv1.MachineSet{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(ms), got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, second := read(), read()
	add := func(to *clusterv1.MachineSet, finalizer string) error {
		_, err := finalizers.EnsureFinalizer(t.Context(), c, to, finalizer)
		return err
	}
	if err := add(first, clusterv1.MachineSetFinalizer); err != nil {
		t.Fatal(err)
	}
	if err := add(second, clusterv1.MachineSetTopologyFinalizer); !apierrors.IsConflict(err) {
		t.Fatalf("the second one, which has not seen the first, is answered with: %v", err)
	}
	if err := add(read(), clusterv1.MachineSetTopologyFinalizer); err != nil {
		t.Fatal(err)
	}
	want := []string{clusterv1.MachineSetFinalizer, clusterv1.MachineSetTopologyFinalizer}
	if got := read().Finalizers; !slices.Equal(got, want) {
		t.Errorf("the finalizers are %v, want %v", got, want)
	}
}

func TestOnlyFinalizers(t *testing.T) {
	for name, test := range map[string]struct {
		patch string
		want  bool
	}{
		"a list":                          {`{"metadata":{"finalizers":["a","b"]}}`, true},
		"no finalizer any more":           {`{"metadata":{"finalizers":null}}`, true},
		"a label beside it":               {`{"metadata":{"finalizers":["a"],"labels":{"a":"b"}}}`, false},
		"a field of spec beside it":       {`{"metadata":{"finalizers":["a"]},"spec":{"paused":true}}`, false},
		"a label":                         {`{"metadata":{"labels":{"a":"b"}}}`, false},
		"nothing":                         {`{}`, false},
		"something that is not an object": {`[]`, false},
	} {
		if _, got := onlyFinalizers([]byte(test.patch)); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
