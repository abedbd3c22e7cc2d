package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/test/long"
)

// TestClusterIsRestored: a cluster returns to an earlier state. Objects deleted after the backup exist again, objects
// created after it are gone, and the cluster keeps working.
func TestClusterIsRestored(t *testing.T) {
	long.Need(t)
	restoreCluster(t, "saved", 1)
}

// TestThreeMembersAreRestored: two members of etcd are removed, recreated, and join the member that got the data.
func TestThreeMembersAreRestored(t *testing.T) {
	long.Need(t)
	restoreCluster(t, "saved-ha", 3)
}

func restoreCluster(t *testing.T, name string, controlPlane int) {
	must(t, "cluster", "create", name, "--control-plane", fmt.Sprint(controlPlane), "--workers", "1")
	defer must(t, "cluster", "delete", name)
	kubectl := func(args ...string) string {
		return must(t, append([]string{"kubectl", "--cluster", name}, args...)...)
	}
	kubectl("create", "configmap", "precious", "--from-literal=a=b")
	saved := strings.TrimSpace(must(t, "backup", "create", name))
	backups := decode[[]struct {
		Name                string
		Keys                int
		ComparedWithCluster bool
	}](t, "backup", "list", name)
	if len(backups) != 1 || backups[0].Name != saved || backups[0].Keys < 100 || !backups[0].ComparedWithCluster {
		t.Errorf("backups are %+v, want one complete backup %s", backups, saved)
	}
	kubectl("delete", "configmap", "precious")
	kubectl("create", "configmap", "later")
	mustFail(t, "--yes", "backup", "restore", name)
	mustFail(t, `no backup "nope"`, "backup", "restore", name, "nope", "--yes")
	must(t, "backup", "restore", name, saved, "--yes")
	if maps := kubectl("get", "configmaps", "-o", "name"); !strings.Contains(maps, "precious") ||
		strings.Contains(maps, "later") {
		t.Errorf("after the restore, want ConfigMap precious and not later, got\n%s", maps)
	}
	converges(t, name, controlPlane+1)
	members(t, name, controlPlane)
	// The cluster works: controllers see changes, and Cluster API sees its machines.
	makeWebImage(t)
	kubectl("create", "deployment", "web", "--image=web.test/web:1", "--replicas=2", "--", "/web", "wait")
	eventually(t, "the Deployment is rolled out", func() error {
		out, _, err := try(t, "kubectl", "--cluster", name, "get", "deployment", "web", "-o",
			"jsonpath={.status.readyReplicas}")
		if err != nil || out != "2" {
			return fmt.Errorf("%q replicas are ready (%v)", out, err)
		}
		return nil
	})
	must(t, "cluster", "scale", name, "--workers", "2")
	converges(t, name, controlPlane+2)
}
