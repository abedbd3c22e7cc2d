package clusterctl

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

func TestWhatResumes(t *testing.T) {
	cluster := func(paused *bool, annotations map[string]string) (c clusterv1.Cluster) {
		c.Namespace, c.Name, c.Annotations, c.Spec.Paused = "blue", "c1", annotations, paused
		return c
	}
	class := func(annotations map[string]string) (c clusterv1.ClusterClass) {
		c.Namespace, c.Name, c.Annotations = "classes", "owned", annotations
		return c
	}
	mark := map[string]string{clusterv1.PausedAnnotation: ""}
	at := upstream.Kubeconfig{Path: "/my files/k", Context: "one"}
	for name, c := range map[string]struct {
		cluster clusterv1.Cluster
		class   clusterv1.ClusterClass
		want    []string
	}{
		"nothing is paused":          {cluster(nil, nil), class(nil), nil},
		"nothing is paused any more": {cluster(ptr.To(false), nil), class(nil), nil},
		"a cluster": {cluster(ptr.To(true), nil), class(nil),
			[]string{
				`kubectl --kubeconfig '/my files/k' --context one -n blue patch cluster c1 --type merge -p '{"spec":{"paused":null}}'`,
			}},
		"a cluster paused by its annotation": {cluster(nil, mark), class(nil),
			[]string{"kubectl --kubeconfig '/my files/k' --context one -n blue annotate cluster c1 cluster.x-k8s.io/paused-"}},
		"a class": {
			cluster(nil, nil), class(mark),
			[]string{
				"kubectl --kubeconfig '/my files/k' --context one -n classes annotate clusterclass owned cluster.x-k8s.io/paused-",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resume(at, []clusterv1.Cluster{c.cluster}, []clusterv1.ClusterClass{c.class}); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"": "''", "blue": "blue", "/a/b-c_d.e": "/a/b-c_d.e", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'",
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q is %s, want %s", word, got, want)
		}
	}
}

// TestNoNamespace: an empty namespace is an error, because it would mean all namespaces.
func TestNoNamespace(t *testing.T) {
	c := &Client{}
	_, calledOff := c.CallOff(t.Context(), HandOver{})
	for name, err := range map[string]error{
		"move": c.MayMove(t.Context(), "", upstream.Kubeconfig{}), "save": c.MaySave(t.Context(), ""),
		"hand over": c.HandOver(t.Context(), HandOver{}), "call off": calledOff,
	} {
		if !errors.Is(err, errNoNamespace) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
