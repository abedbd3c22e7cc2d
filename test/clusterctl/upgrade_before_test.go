//go:build linux

package clusterctl

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/capstan-dev/capstan/release"
)

// TestUpgradeFromTheReleaseBefore upgrades the provider in a management cluster from the previous release, with the
// real clusterctl, while a cluster has a machine on a host. The previous release is built from its own sources, and
// runs its own manager. Then the test downgrades and upgrades once more. Under each release the cluster, its host and
// the claim stay the same, and the manager works.
func TestUpgradeFromTheReleaseBefore(t *testing.T) {
	dir := os.Getenv("CAPSTAN_TEST_BEFORE")
	if dir == "" {
		t.Skip("needs the previous release: make test-before")
	}
	w := newWorld(t)
	w.fromSourcesBefore(filepath.Join(dir, "dist"))
	old, now := filepath.Join(dir, "bin", "capstan-manager"), binary(t, "capstan-manager")
	w.cluster()
	w.run("init", "--core", "cluster-api:"+version(t), "--bootstrap", "kubeadm:"+version(t), "--control-plane",
		"kubeadm:"+version(t), "--infrastructure", "capstan:"+current)
	w.unhookOthers()
	manager := w.managerFrom(old)
	s := w.provided()
	claimed, free := s.populate()
	claim, before := *s.host(claimed).Spec.Claim, s.meaning(claimed)

	for _, step := range []struct{ to, program string }{{newer, now}, {current, old}, {newer, now}} {
		w.stop(manager) // like the kubelet when clusterctl deletes the Deployment
		w.run("upgrade", "apply", "--infrastructure", "capstan-system/capstan:"+step.to)
		if got := w.installed(); got != step.to {
			t.Errorf("the inventory has version %q, want %q", got, step.to)
		}
		manager = w.managerFrom(step.program)
		s.until("the machine is provisioned under "+step.to, func() bool { s.agent(claimed); return s.provisioned() })
		is := s.meaning(claimed)
		for what, was := range before {
			if !reflect.DeepEqual(is[what], was) {
				t.Errorf("under %s: %s was\n%v\nand is\n%v", step.to, what, was, is[what])
			}
		}
		w.stored("v1beta2")
	}
	s.releases(t, claimed, free, claim)
}

// fromSourcesBefore replaces the current release in the repository by a release built from the previous release's
// sources.
func (w *world) fromSourcesBefore(dist string) {
	w.Helper()
	files := release.Files{}
	for _, label := range []string{"infrastructure-capstan", "runtime-extension-capstan"} {
		names, err := filepath.Glob(filepath.Join(dist, label, current, "*"))
		if w.must(err); len(names) < 2 {
			w.Fatalf("%s has no release %s of %s: run make test-before", dist, current, label)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			w.must(err)
			files[label+"/"+current+"/"+filepath.Base(name)] = text
		}
	}
	w.must(release.Write(files, w.repository))
}
