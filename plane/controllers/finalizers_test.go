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

// TestNoFinalizerIsLost adds two finalizers as two controllers of Cluster API do if both have read the same MachineSet.
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
		t.Fatalf("adding the second finalizer without having seen the first: got error %v, want a conflict", err)
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
		"only finalizers":                    {`{"metadata":{"finalizers":["a","b"]}}`, true},
		"the last finalizer is removed":      {`{"metadata":{"finalizers":null}}`, true},
		"finalizers and a label":             {`{"metadata":{"finalizers":["a"],"labels":{"a":"b"}}}`, false},
		"finalizers and a field of the spec": {`{"metadata":{"finalizers":["a"]},"spec":{"paused":true}}`, false},
		"only a label":                       {`{"metadata":{"labels":{"a":"b"}}}`, false},
		"an empty patch":                     {`{}`, false},
		"a patch that is not an object":      {`[]`, false},
	} {
		if _, got := onlyFinalizers([]byte(test.patch)); got != test.want {
			t.Errorf("%s: is it a patch of finalizers only? got %v, want %v", name, got, test.want)
		}
	}
}
