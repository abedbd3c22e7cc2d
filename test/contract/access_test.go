//go:build linux

package contract

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/test/apiserver"
)

const (
	managerNamespace = "capstan-system"
	managerAccount   = "capstan-manager"
	managerUser      = "system:serviceaccount:" + managerNamespace + ":" + managerAccount
)

// managerConfig connects to the API server as the service account of capstan-manager: every test of this package runs
// the provider with only its own rights.
var managerConfig *rest.Config

// managerRoles are the roles in config/rbac that the service account is bound to.
var managerRoles []*rbacv1.ClusterRole

// rbacObjects reads all objects in config/rbac.
func rbacObjects() (roles []*rbacv1.ClusterRole, namespaced []*rbacv1.Role, err error) {
	files, err := filepath.Glob(filepath.Join(apiserver.Root(), "config", "rbac", "*.yaml"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		for _, document := range bytes.Split(data, []byte("\n---\n")) {
			kind := metav1.TypeMeta{}
			if err := yaml.Unmarshal(document, &kind); err != nil {
				return nil, nil, fmt.Errorf("reading %s: %w", file, err)
			}
			switch kind.Kind {
			case "ClusterRole":
				role := &rbacv1.ClusterRole{}
				if err := yaml.UnmarshalStrict(document, role); err != nil {
					return nil, nil, fmt.Errorf("reading %s: %w", file, err)
				}
				roles = append(roles, role)
			case "Role":
				role := &rbacv1.Role{}
				if err := yaml.UnmarshalStrict(document, role); err != nil {
					return nil, nil, fmt.Errorf("reading %s: %w", file, err)
				}
				namespaced = append(namespaced, role)
			}
		}
	}
	return roles, namespaced, nil
}

// bindManager installs config/rbac, binds the manager's roles to its service account, and gets a token for that
// account.
func bindManager(ctx context.Context) error {
	roles, _, err := rbacObjects()
	if err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: managerAccount}}
	if err := shared.admin.Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: managerNamespace},
	}); err != nil {
		return err
	}
	if err := shared.admin.Create(ctx, account); err != nil {
		return err
	}
	for _, role := range roles {
		if role.Name != managerAccount {
			if err := shared.admin.Create(ctx, role); err != nil { // used by aggregation; we don't bind it
				return err
			}
			continue
		}
		managerRoles = append(managerRoles, role.DeepCopy())
		if err := bind(ctx, role, rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: managerNamespace, Name: managerAccount,
		}); err != nil {
			return err
		}
	}
	token := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](7200)},
	}
	if err := shared.admin.SubResource("token").Create(ctx, account, token); err != nil {
		return fmt.Errorf("getting a token of the manager: %w", err)
	}
	managerConfig = &rest.Config{
		Host: shared.Config.Host, BearerToken: token.Status.Token,
		TLSClientConfig: rest.TLSClientConfig{CAData: shared.Config.CAData},
		QPS:             200, Burst: 400, UserAgent: managerAccount,
	}
	return nil
}

const (
	fallback = "the cache lists these objects only if the API server can't stream existing objects in a watch"
	putRight = "corrects an object that a person, or an earlier version of the manager, has changed"
	origin   = "checks who made the bootstrap data of a Machine with a configRef; provider/bootstrapdata tests it"
	admitted = "the admission policies check that the manager has it"
	migrates = "migrates stored objects after an upgrade; the tests of upgrades cover it"
)

// unused lists the rights that the manager has but does not use in TestAccess. The values say why it has them.
var unused = map[string]string{
	"delete cluster.x-k8s.io/machines": "deletes the Machines of a control plane that is gone; " +
		"another test covers it",
	"patch cluster.x-k8s.io/machines":                   "annotates a Machine that has failed; another test covers it",
	"create infrastructure.capstan.dev/capstanclusters": "RB-01 requires it",
	"delete infrastructure.capstan.dev/capstanclusters": "RB-01 requires it",
	"update infrastructure.capstan.dev/capstanclusters": "RB-01 requires it",
	"get infrastructure.capstan.dev/capstanclusters": "RB-01 requires it; reads come from the cache, which " +
		"lists and watches",
	"create infrastructure.capstan.dev/capstanmachines": "RB-01 requires it",
	"delete infrastructure.capstan.dev/capstanmachines": "RB-01 requires it",
	"update infrastructure.capstan.dev/capstanmachines": "RB-01 requires it",
	"get infrastructure.capstan.dev/capstanmachines": "RB-01 requires it; reads come from the cache, which " +
		"lists and watches",
	"create infrastructure.capstan.dev/capstanhosts": "RB-01 requires it",
	"delete infrastructure.capstan.dev/capstanhosts": "RB-01 requires it",
	"update infrastructure.capstan.dev/capstanhosts": "RB-01 requires it",
	"get infrastructure.capstan.dev/capstanhosts": "the manager grants it to each agent for the agent's own host, " +
		"and can only grant rights that it has itself",
	"get infrastructure.capstan.dev/capstanclusters/status":        "RB-02 requires it",
	"update infrastructure.capstan.dev/capstanclusters/status":     "RB-02 requires it",
	"get infrastructure.capstan.dev/capstanmachines/status":        "RB-02 requires it",
	"update infrastructure.capstan.dev/capstanmachines/status":     "RB-02 requires it",
	"get infrastructure.capstan.dev/capstanhosts/status":           "granted to agents, see get capstanhosts",
	"update infrastructure.capstan.dev/capstanhosts/status":        "granted to agents, see get capstanhosts",
	"assign infrastructure.capstan.dev/capstanhosts/claim":         admitted,
	"assign infrastructure.capstan.dev/capstanhosts/handover":      admitted,
	"assign infrastructure.capstan.dev/capstanmachines/providerid": admitted,
	"list cluster.x-k8s.io/clusters":                               fallback,
	"list cluster.x-k8s.io/machines":                               fallback,
	"list coordination.k8s.io/leases":                              fallback,
	"list apiextensions.k8s.io/customresourcedefinitions":          fallback,
	"get bootstrap.cluster.x-k8s.io/k0scontrollerconfigs":          origin,
	"get bootstrap.cluster.x-k8s.io/k0sworkerconfigs":              origin,
	"get bootstrap.cluster.x-k8s.io/kthreesconfigs":                origin,
	"get bootstrap.cluster.x-k8s.io/kubeadmconfigs":                origin,
	"get bootstrap.cluster.x-k8s.io/microk8sconfigs":               origin,
	"get bootstrap.cluster.x-k8s.io/rke2configs":                   origin,
	"get bootstrap.cluster.x-k8s.io/talosconfigs":                  origin,
	"patch coordination.k8s.io/leases":                             putRight,
	"patch rbac.authorization.k8s.io/rolebindings":                 putRight,
	"patch rbac.authorization.k8s.io/roles":                        putRight,
	"patch serviceaccounts":                                        putRight,
	"patch apiextensions.k8s.io/customresourcedefinitions/status":  migrates,
	"get infrastructure.capstan.dev/capstanclustertemplates":       migrates,
	"patch infrastructure.capstan.dev/capstanclustertemplates":     migrates,
	"get infrastructure.capstan.dev/capstanmachinetemplates":       migrates,
	"patch infrastructure.capstan.dev/capstanmachinetemplates":     migrates,
	"get cluster.x-k8s.io/clusters": "RB-03; reads come from the cache, which lists and " +
		"watches",
	"get cluster.x-k8s.io/machines":     "RB-03; reads come from the cache, which lists and watches",
	"get coordination.k8s.io/leases":    "granted to agents, see get capstanhosts",
	"update coordination.k8s.io/leases": "granted to agents, see get capstanhosts",
	"update secrets": "replaces bootstrap data that an earlier claim left behind, which happens only " +
		"after a crash",
	"patch events.k8s.io/events": "increases the count of an event that recurs, which takes some minutes",
}

// TestAccess runs the provider through a whole life with the rights of its service account, and compares its requests
// in the API server's audit log with these rights.
func TestAccess(t *testing.T) {
	f := form{v1beta2}
	w := newWorld(t, f, 4)
	w.provisionedCluster("demo")
	w.newMachine("cp", machineOptions{controlPlane: true})
	w.newMachine("w1", machineOptions{})
	w.ready("cp")
	w.ready("w1")
	edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(true))
	w.waitCondition("CapstanMachine", "w1", clusterv1.PausedCondition, "True")
	edit(w, read(w, "demo", &clusterv1.Cluster{}), pause(false))
	w.waitCondition("CapstanMachine", "w1", clusterv1.PausedCondition, "False")
	checkOwners(w)
	for _, name := range []string{"w1", "cp"} {
		w.delete(w.machine(name))
		w.gone("CapstanMachine", name)
	}
	w.delete(w.cluster("demo"))
	w.gone("CapstanCluster", "demo")
	w.must(shared.admin.DeleteAllOf(t.Context(), &infrav1.CapstanHost{}, inNamespace(w.ns)))
	w.until("the hosts are gone", func() bool {
		list := &infrav1.CapstanHostList{}
		w.must(shared.admin.List(t.Context(), list, inNamespace(w.ns)))
		return len(list.Items) == 0
	})
	w.stop()

	used, denied, err := requestsOf(managerUser)
	w.must(err)
	for _, d := range denied {
		t.Errorf("the API server refused the manager: %s", d)
	}
	granted := rights(managerRoles)
	if len(used) < 10 || len(granted) < 20 {
		t.Fatalf("the audit log names %d used rights, and %d are granted: the test looks in the wrong place", len(used),
			len(granted))
	}
	var lines []string
	for _, right := range granted {
		why, listed := unused[right]
		switch {
		case used[right] > 0:
			lines = append(lines, fmt.Sprintf("%s\tused\t%d requests", right, used[right]))
		case listed:
			lines = append(lines, fmt.Sprintf("%s\tnot used\t%s", right, why))
		default:
			lines = append(lines, right+"\tnot used\t")
			t.Errorf("the manager may %s but never does: remove the right, or list it in unused with a reason (RB-12)",
				right)
		}
	}
	t.Attr("rule", "RB-12")
	for right := range unused {
		if !slices.Contains(granted, right) {
			t.Errorf("%q is listed in unused, but is not granted", right)
		}
	}
	w.Attr("rule", "SG-01")
	w.must(os.MkdirAll(reports, 0o755))
	w.must(os.WriteFile(reports+"/access.tsv", []byte("right\tused\twhy\n"+strings.Join(lines, "\n")+"\n"), 0o644))
}

// checkOwners fails the test if an owner reference blocks the deletion of its owner. To create such a reference, the
// provider would need rights to the owner's finalizers (RB-10).
func checkOwners(w *world) {
	w.Helper()
	accounts, secrets := &corev1.ServiceAccountList{}, &corev1.SecretList{}
	w.must(shared.admin.List(w.Context(), accounts, inNamespace(w.ns)))
	w.must(shared.admin.List(w.Context(), secrets, inNamespace(w.ns)))
	var owners []metav1.OwnerReference
	for _, a := range accounts.Items {
		owners = append(owners, a.OwnerReferences...)
	}
	for _, s := range secrets.Items {
		owners = append(owners, s.OwnerReferences...)
	}
	if len(owners) == 0 {
		w.Error("no object has an owner: the test looks at the wrong objects")
	}
	for _, o := range owners {
		if ptr.Deref(o.BlockOwnerDeletion, false) {
			w.Errorf("an owner reference blocks the deletion of %s %s (RB-10)", o.Kind, o.Name)
		}
	}
	w.Attr("rule", "RB-10")
}

// TestAggregatedRole compares the rights that core gets through the aggregated role with those that the contract
// requires.
func TestAggregatedRole(t *testing.T) {
	roles, _, err := rbacObjects()
	if err != nil {
		t.Fatal(err)
	}
	var aggregated []*rbacv1.ClusterRole
	for _, r := range roles {
		if r.Labels["cluster.x-k8s.io/aggregate-to-manager"] == "true" {
			aggregated = append(aggregated, r)
		}
	}
	if len(aggregated) != 1 {
		t.Fatalf("%d roles have the label cluster.x-k8s.io/aggregate-to-manager, want 1", len(aggregated))
	}
	t.Attr("rule", "RB-08")
	has := rights(aggregated)
	var want []string
	for _, resource := range []string{"capstanmachines", "capstanmachinetemplates", "capstanclusters",
		"capstanclustertemplates"} {
		for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
			if resource == "capstanclustertemplates" && (verb == "create" || verb == "delete") {
				continue // five verbs suffice (D-16); only rebased ClusterClasses need the other two
			}
			want = append(want, verb+" infrastructure.capstan.dev/"+resource)
		}
	}
	for _, right := range want {
		if !slices.Contains(has, right) {
			t.Errorf("core may not %s", right)
		}
	}
	t.Attr("rule", "RB-05")
	t.Attr("rule", "RB-09")
	if infrav1.GroupVersion.Group == "infrastructure.cluster.x-k8s.io" {
		t.Error("our API group is the one on which core has rights without aggregation")
	}
	recordBoth(t, "IC-04")
	t.Attr("rule", "RB-06")
	t.Attr("rule", "RB-07")
	for _, right := range has {
		if !slices.Contains(want, right) {
			t.Errorf("core may %s, which no rule requires", right)
		}
	}
}
