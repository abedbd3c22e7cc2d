package restore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/internal/hint"
)

// controlPlaneFiles makes the files of a host whose etcd was stopped, or has not joined yet.
func controlPlaneFiles(t *testing.T, root string, joined bool) {
	t.Helper()
	aside := filepath.Join(root, "etc/kubernetes/manifests-during-restore")
	for _, dir := range []string{aside, filepath.Join(root, "etc/kubernetes/manifests"),
		filepath.Join(root, "var/lib/etcd/member")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if !joined {
		return
	}
	pod := `{"spec":{"containers":[{"command":["etcd","--name=n","--initial-advertise-peer-urls=https://10.0.0.1:2380","--data-dir=/var/lib/etcd"]}]}}`
	for _, name := range []string{"etcd.yaml", "kube-apiserver.yaml"} {
		if err := os.WriteFile(filepath.Join(aside, name), []byte(pod), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoreBeginsAgain: the restore chooses a host that has etcd and whose machine is not being deleted, even if the
// host is not the first by name. If the host's data can't be replaced, etcd runs on all hosts as before.
func TestRestoreBeginsAgain(t *testing.T) {
	home := t.TempDir()
	d := Directories{
		Root: func(host string) string { return filepath.Join(home, host) },
		Tool: backup.Tool{Path: "/there/is/none"},
	}
	members := map[string]bool{}
	var hosts []infrav1.CapstanHost
	for _, name := range []string{"a", "b", "c", "d"} {
		h := infrav1.CapstanHost{}
		h.Name, h.Spec.Claim = name, &infrav1.HostClaim{Machine: "m-" + name}
		hosts = append(hosts, h)
		controlPlaneFiles(t, d.Root(name), name != "a")
		var err error
		if members[name], err = d.Member(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	leaving := clusterv1.Machine{}
	now := metav1.Now()
	leaving.DeletionTimestamp, leaving.Spec.InfrastructureRef.Name = &now, "m-b"
	plan, err := Decide(
		World{Cluster: &clusterv1.Cluster{}, Hosts: hosts, Machines: []clusterv1.Machine{leaving}, Members: members},
	)
	if err != nil {
		t.Fatal(err)
	}
	order := ""
	for _, h := range plan.Hosts {
		order += h.Name
	}
	if order != "cdba" || plan.Hosts[3].Member {
		t.Errorf("the order is %s: %+v", order, plan)
	}
	r := &Restore{Plan: plan, options: Options{Hosts: d}}
	if _, err := r.replace(t.Context(), plan.First().Name, "etcd.db"); err == nil {
		t.Error("data was replaced without a tool")
	}
	for _, name := range []string{"b", "c", "d"} {
		if _, err := os.Stat(filepath.Join(d.Root(name), "etc/kubernetes/manifests/etcd.yaml")); err != nil {
			t.Errorf("etcd of host %s does not run again: %v", name, err)
		}
	}
}

func TestFilesThatAreNotHere(t *testing.T) {
	d := Directories{Root: func(string) string { return filepath.Join(t.TempDir(), "none") }}
	_, err := d.Member(t.Context(), "owned")
	if err == nil || !strings.Contains(err.Error(), "host owned is not a local host") || hint.Of(err) == "" {
		t.Errorf("got %v", err)
	}
}
