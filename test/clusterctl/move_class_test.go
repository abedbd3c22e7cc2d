//go:build linux

package clusterctl

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/test/apiserver"
	"github.com/capstan-dev/capstan/test/long"
)

// TestMoveWithAClass: a move that is interrupted leaves clusters and classes paused. The next move prints commands that
// resume them in the source. When the commands have run, a move succeeds.
func TestMoveWithAClass(t *testing.T) {
	long.Need(t)
	from, _ := newBareSide(t)
	to, _ := newBareSide(t)
	from.classed("blue")
	from.initialized()
	c, err := clusterctl.Open(t.Context(), clusterctl.Options{
		Kubeconfig: from.kubeconfig, Config: from.config, Version: current,
	})
	from.must(err)
	target := upstream.Kubeconfig{Path: to.kubeconfig}
	from.must(c.MayMove(t.Context(), "blue", target))

	// A mover that exits after pausing leaves the cluster and the class paused.
	from.pause("blue")
	err = c.MayMove(t.Context(), "blue", target)
	if err == nil || c.MaySave(t.Context(), "blue") == nil {
		t.Fatalf("want a paused cluster and class neither moved nor saved, got for the move: %v", err)
	}
	kube, failed := apiserver.Bundle()
	from.must(failed)
	programs := t.TempDir()
	from.must(os.Symlink(kube, filepath.Join(programs, "kubectl")))
	commands := 0
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "kubectl ") {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
		cmd.Env = []string{"PATH=" + programs, "HOME=" + from.home}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if commands != 2 {
		t.Errorf("got %d commands, want one for the cluster and one for the class: %v", commands, err)
	}
	from.must(c.MayMove(t.Context(), "blue", target))
	from.must(c.Move(t.Context(), upstream.MoveOptions{
		FromKubeconfig: c.Kubeconfig, ToKubeconfig: target, Namespace: "blue",
	}))
	if from.has(&clusterv1.Cluster{}, "c1") || !to.has(&clusterv1.Cluster{}, "c1") ||
		!to.has(&clusterv1.ClusterClass{}, "capstan-owned") {
		t.Error("the cluster or its class has not moved")
	}
}

// TestMoveOutOfAPlane: an embedded plane still has its own ClusterClass after all clusters of its namespace, with all
// classes, have moved away.
func TestMoveOutOfAPlane(t *testing.T) {
	long.Need(t)
	from, _ := newBareSide(t)
	to, _ := newBareSide(t)
	all := append(documents(t, from.generate("topology")), documents(t, from.generate("topology-owned"))...)
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Cluster" })
	classes := map[string]client.Object{}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	for _, o := range all { // templates belong to their class, as core ensures
		switch name := strings.Join(strings.Split(o.GetName(), "-")[:2], "-"); {
		case o.GetKind() == "ClusterClass":
			from.createIn("default", o)
			classes[name] = o
		default:
			from.createIn("default", o, classes[name])
		}
	}
	from.must(clusterctlv1.AddToScheme(from.api.Scheme()))
	inventory := &clusterctlv1.ProviderList{}
	from.must(from.api.List(t.Context(), inventory))
	for i := range inventory.Items {
		from.must(from.api.Patch(t.Context(), &inventory.Items[i],
			client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"annotations":{"plane.capstan.dev/hash":"x"}}}`))))
	}
	c, err := clusterctl.Open(t.Context(), clusterctl.Options{
		Kubeconfig: from.kubeconfig, Config: from.config, Version: current,
	})
	from.must(err)
	from.must(c.Move(t.Context(), upstream.MoveOptions{
		FromKubeconfig: c.Kubeconfig, ToKubeconfig: upstream.Kubeconfig{Path: to.kubeconfig}, Namespace: "default",
	}))
	for _, o := range all {
		here, there := from.stands(o), to.stands(o)
		if ours := strings.HasPrefix(o.GetName(), "capstan-local"); here != ours || !there {
			t.Errorf("%s %s: in the source %t, in the target %t", o.GetKind(), o.GetName(), here, there)
		}
	}
}

// rank puts classes first.
func rank(o *unstructured.Unstructured) int {
	if o.GetKind() == "ClusterClass" {
		return 0
	}
	return 1
}

// stands reports whether an object exists and is not paused.
func (s side) stands(o *unstructured.Unstructured) bool {
	s.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(o.GroupVersionKind())
	err := s.api.Get(s.Context(), client.ObjectKeyFromObject(o), now)
	s.must(client.IgnoreNotFound(err))
	return err == nil && !hasKey(now.GetAnnotations(), clusterv1.PausedAnnotation)
}

// classed creates a cluster and its class, which no controller reconciles.
func (s side) classed(namespace string) {
	s.Helper()
	for _, o := range documents(s.T, s.generate("topology-owned")) {
		o.SetNamespace(namespace)
		s.must(s.api.Create(s.Context(), o))
	}
}

// pause pauses the clusters and classes of a namespace, like the mover.
func (s side) pause(namespace string) {
	s.Helper()
	clusters, classes := &clusterv1.ClusterList{}, &clusterv1.ClusterClassList{}
	s.must(s.api.List(s.Context(), clusters, client.InNamespace(namespace)))
	s.must(s.api.List(s.Context(), classes, client.InNamespace(namespace)))
	for i := range clusters.Items {
		s.must(s.api.Patch(s.Context(), &clusters.Items[i],
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"paused":true}}`))))
	}
	for i := range classes.Items {
		s.must(s.api.Patch(s.Context(), &classes.Items[i],
			client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`))))
	}
}
