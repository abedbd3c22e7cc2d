package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/backup/member"
	"github.com/capstan-dev/capstan/internal/home"
)

func TestChooseBackup(t *testing.T) {
	two := []backup.Manifest{{Name: "old"}, {Name: "new"}}
	for name, c := range map[string]struct {
		all       []backup.Manifest
		ask, want string
	}{
		"the newest, if none is named": {two, "", "new"},
		"the one that is named":        {two, "old", "old"},
		"one that there is not":        {two, "other", ""},
		"none at all":                  {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chooseBackup(c.all, c.ask)
			if got.Name != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Name, err, c.want)
			}
		})
	}
}

func TestControlPlaneHosts(t *testing.T) {
	host := func(name, cluster string, controlPlane, released bool) infrav1.CapstanHost {
		h := infrav1.CapstanHost{}
		h.Name = name
		h.Spec.Claim = &infrav1.HostClaim{Cluster: cluster, ControlPlane: controlPlane, Released: released}
		return h
	}
	got := controlPlaneHosts([]infrav1.CapstanHost{
		host("c", "blue", true, false), host("a", "blue", true, false), host("b", "blue", false, false), host("d", "green", true, false),
		host("e", "blue", true, true), {},
	}, "blue")
	if len(got) != 2 || got[0].Name != "a" || got[1].Name != "c" {
		t.Errorf("got %v", got)
	}
}

func TestAControlPlaneIsWholeAgain(t *testing.T) {
	machine := func(uid string, controlPlane, ready bool) clusterv1.Machine {
		m := clusterv1.Machine{}
		m.UID, m.Name = types.UID(uid), uid
		if controlPlane {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		}
		status := metav1.ConditionFalse
		if ready {
			status = metav1.ConditionTrue
		}
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: status, Message: "Node is not there"}}
		return m
	}
	left := map[types.UID]bool{"old-1": true, "old-2": true}
	for name, c := range map[string]struct {
		machines []clusterv1.Machine
		want     string
	}{
		"a machine that is left is still there, though enough are ready": {
			[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("c", true, true), machine("old-2", true, true)}, "old-2 is being deleted"},
		"all are gone, none is new yet": {[]clusterv1.Machine{machine("a", true, true)}, "1 of 3; waiting for machines"},
		"one is not ready":              {[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("c", true, false)}, "2 of 3; c: Node is not there"},
		"workers do not count":          {[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("w", false, true)}, "2 of 3; waiting for machines"},
		"whole, whatever workers do":    {[]clusterv1.Machine{machine("a", true, true), machine("b", true, true), machine("c", true, true), machine("w", false, false)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missing(c.machines, left, 3); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestBackupsInABucketAreRefused(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	for want, args := range map[string][]string{
		"there is no access key": {"backup", "list", "--bucket", "backups"},
		"backup.insecure":        {"backup", "list", "--bucket", "backups", "--endpoint", "http://127.0.0.1:1"},
		"no name of a bucket":    {"backup", "restore", "blue", "--bucket", "A/B"},
		"[bucket directory]":     {"backup", "create", "blue", "--bucket", "backups", "--directory", "/x"},
	} {
		if code, _, errOut := capstan(t, "", args...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%v: %d %s, want %q", args, code, errOut, want)
		}
	}
}

func TestRestorable(t *testing.T) {
	deleted, paused := metav1.Now(), true
	good := []restoreHost{{name: "a", member: &member.Member{}}}
	for name, c := range map[string]struct {
		change func(*clusterv1.Cluster)
		hosts  []restoreHost
		want   string
	}{
		"as it should be":                      {nil, good, ""},
		"a cluster that is being deleted":      {func(c *clusterv1.Cluster) { c.DeletionTimestamp = &deleted }, good, "being deleted"},
		"a cluster that is paused":             {func(c *clusterv1.Cluster) { c.Spec.Paused = &paused }, good, "is paused"},
		"no host":                              {nil, nil, "no control plane host"},
		"none with etcd":                       {nil, []restoreHost{{name: "a"}}, "no place to go"},
		"the only one with etcd is on its way": {nil, []restoreHost{{name: "a", member: &member.Member{}, leaving: true}}, "no place to go"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1.Cluster{}
			cluster.Name = "blue"
			if c.change != nil {
				c.change(cluster)
			}
			if err := restorable(cluster, c.hosts); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// controlPlaneFiles makes the files of a host whose etcd was stopped, or has not joined yet.
func controlPlaneFiles(t *testing.T, a *app, host string, joined bool) {
	t.Helper()
	aside := filepath.Join(a.home.HostRoot(host), "etc/kubernetes/manifests-during-restore")
	for _, dir := range []string{aside, filepath.Join(a.home.HostRoot(host), "etc/kubernetes/manifests"), filepath.Join(a.home.HostRoot(host), "var/lib/etcd/member")} {
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

// TestRestoreBeginsAgain: the data goes to a host with etcd whose machine stays, whatever its name; and if it can't be replaced there, etcd runs on all hosts as before.
func TestRestoreBeginsAgain(t *testing.T) {
	a := &app{home: home.Dir(t.TempDir()), err: io.Discard}
	var hosts []infrav1.CapstanHost
	for _, name := range []string{"a", "b", "c", "d"} {
		h := infrav1.CapstanHost{}
		h.Name, h.Spec.Claim = name, &infrav1.HostClaim{Machine: "m-" + name}
		hosts = append(hosts, h)
		controlPlaneFiles(t, a, name, name != "a")
	}
	leaving := clusterv1.Machine{}
	now := metav1.Now()
	leaving.DeletionTimestamp, leaving.Spec.InfrastructureRef.Name = &now, "m-b"
	found, err := a.restoreHosts(hosts, []clusterv1.Machine{leaving})
	if err != nil {
		t.Fatal(err)
	}
	order := ""
	for _, h := range found {
		order += h.name
	}
	if order != "cdba" || found[3].member != nil {
		t.Errorf("the order is %s: %+v", order, found)
	}
	r := &restore{app: a, hosts: found, tool: backup.Tool{Path: "/there/is/none"}}
	if err := r.replace(t.Context(), found[0].member); err == nil {
		t.Error("data was replaced without a tool")
	}
	for _, name := range []string{"b", "c", "d"} {
		if _, err := os.Stat(filepath.Join(a.home.HostRoot(name), "etc/kubernetes/manifests/etcd.yaml")); err != nil {
			t.Errorf("etcd of host %s does not run again: %v", name, err)
		}
	}
}

func TestPlaceOfANextCommand(t *testing.T) {
	for want, args := range map[string][]string{
		"": nil, " --bucket=b --insecure=true": {"--insecure", "--bucket", "b", "--keep", "3"}, " --directory=/mnt/backups": {"--directory=/mnt/backups"},
	} {
		var place backupPlace
		cmd := &cobra.Command{}
		cmd.Flags().Int("keep", 1, "")
		place.flag(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if got := place.as(cmd); got != want {
			t.Errorf("%v: got %q, want %q", args, got, want)
		}
	}
}

func TestIncomplete(t *testing.T) {
	now := metav1.Now()
	machine := func(controlPlane, node, leaving bool) clusterv1.Machine {
		m := clusterv1.Machine{}
		if controlPlane {
			m.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
		}
		if node {
			m.Status.NodeRef.Name = "n"
		}
		if leaving {
			m.DeletionTimestamp = &now
		}
		return m
	}
	for name, c := range map[string]struct {
		machines []clusterv1.Machine
		want     bool
	}{
		"all are there": {[]clusterv1.Machine{machine(true, true, false), machine(false, false, true)}, false},
		"one comes":     {[]clusterv1.Machine{machine(true, true, false), machine(true, false, false)}, true},
		"one goes":      {[]clusterv1.Machine{machine(true, true, true)}, true},
	} {
		if got := incomplete(c.machines); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
