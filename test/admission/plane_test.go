//go:build linux

package admission

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// object parses an object and sets its namespace.
func object(t *testing.T, namespace, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &o.Object))
	o.SetNamespace(namespace)
	o.SetGenerateName("o-")
	return o
}

// grant gives a user verbs on resources of a group in a namespace.
func grant(t *testing.T, namespace, user, group string, resources []string, verbs ...string) {
	t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: user + "-"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: resources, Verbs: verbs}},
	}
	must(t, admin.Create(t.Context(), role))
	must(t, admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: user + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

// TestClassesOfOtherNamespaces: a user who can't read the ClusterClasses of a namespace can't make Cluster API copy the
// templates of these classes.
func TestClassesOfOtherNamespaces(t *testing.T) {
	own, other := namespace(t), namespace(t)
	const group = "cluster.x-k8s.io"
	cluster := func(from string) *unstructured.Unstructured {
		return object(t, own, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
spec:
  topology:
    classRef: {name: c`+from+`}
    version: v1.34.0
`)
	}
	grant(t, own, "guest", group, []string{"clusters"}, "create", "update", "patch", "get")
	grant(t, own, "friend", group, []string{"clusters"}, "create", "update", "patch", "get")
	grant(t, other, "friend", group, []string{"clusterclasses"}, "get")
	guest, friend := as(t, "guest"), as(t, "friend")

	must(t, guest.Create(t.Context(), cluster("")))
	must(t, guest.Create(t.Context(), cluster(", namespace: "+own)))
	refused(t, guest.Create(t.Context(), cluster(", namespace: "+other)), "guest", other, "get clusterclasses")
	must(t, friend.Create(t.Context(), cluster(", namespace: "+other)))

	theirs := cluster("")
	must(t, guest.Create(t.Context(), theirs))
	change := client.RawPatch(merge, []byte(`{"spec":{"topology":{"classRef":{"namespace":"`+other+`"}}}}`))
	refused(t, guest.Patch(t.Context(), theirs.DeepCopy(), change), other)
	must(t, friend.Patch(t.Context(), theirs.DeepCopy(), change))
	// Once an allowed user has set the reference, users who may not set it can still change the rest of the object.
	must(t, guest.Patch(t.Context(), theirs.DeepCopy(), client.RawPatch(merge, []byte(`{"spec":{"paused":true}}`))))
}

// TestSecretsInFiles: a user who can't read Secrets can't make the bootstrap provider deliver them to a host.
func TestSecretsInFiles(t *testing.T) {
	ns := namespace(t)
	const file = `files: [{path: /x, contentFrom: {secret: {name: demo-kubeconfig, key: value}}}]`
	const user = `users: [{name: x, passwdFrom: {secret: {name: demo-kubeconfig, key: value}}}]`
	const plain = `files: [{path: /x, content: hello}]`
	kinds := map[string]func(what string) string{
		"KubeadmConfig": func(what string) string {
			return "apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfig\nspec: {" + what + "}"
		},
		"KubeadmConfigTemplate": func(what string) string {
			return "apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfigTemplate\n" +
				"spec: {template: {spec: {" + what + "}}}"
		},
		"KubeadmControlPlane": func(what string) string {
			return "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\n" +
				"spec: {version: v1.34.0, machineTemplate: {spec: {infrastructureRef: {kind: X, name: x, apiGroup: x.io}}}, " +
				"kubeadmConfigSpec: {" + what + "}}"
		},
		"KubeadmControlPlaneTemplate": func(what string) string {
			return "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlaneTemplate\n" +
				"spec: {template: {spec: {kubeadmConfigSpec: {" + what + "}}}}"
		},
	}
	for _, who := range []string{"author", "reader"} {
		grant(t, ns, who, "bootstrap.cluster.x-k8s.io", []string{"*"}, "*")
		grant(t, ns, who, "controlplane.cluster.x-k8s.io", []string{"*"}, "*")
		grant(t, ns, who, "cluster.x-k8s.io", []string{"clusterclasses"}, "*")
	}
	grant(t, ns, "reader", "", []string{"secrets"}, "get")
	author, reader := as(t, "author"), as(t, "reader")
	for kind, text := range kinds {
		t.Run(kind, func(t *testing.T) {
			must(t, author.Create(t.Context(), object(t, ns, text(plain))))
			refused(t, author.Create(t.Context(), object(t, ns, text(file))), "author", ns, "get secrets")
			refused(t, author.Create(t.Context(), object(t, ns, text(user))), "contentFrom")
			theirs := object(t, ns, text(file))
			must(t, reader.Create(t.Context(), theirs))
			must(t, reader.Create(t.Context(), object(t, ns, text(user))))
			label := client.RawPatch(merge, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			must(t, author.Patch(t.Context(), theirs, label))
		})
	}
	class := func(kind, group string) *unstructured.Unstructured {
		return object(t, ns, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
spec:
  infrastructure: {templateRef: {apiVersion: x.io/v1, kind: XTemplate, name: x}}
  controlPlane: {templateRef: {apiVersion: x.io/v1, kind: XTemplate, name: x}}
  patches:
  - name: x
    definitions:
    - selector: {apiVersion: `+group+`, kind: `+kind+`, matchResources: {controlPlane: true}}
      jsonPatches: [{op: add, path: /spec/template/spec/x, value: 1}]
`)
	}
	t.Run("ClusterClass", func(t *testing.T) {
		must(t, author.Create(t.Context(), class("CapstanMachineTemplate", "infrastructure.capstan.dev/v1beta2")))
		for kind, group := range map[string]string{
			"KubeadmConfigTemplate":       "bootstrap.cluster.x-k8s.io/v1beta2",
			"KubeadmControlPlaneTemplate": "controlplane.cluster.x-k8s.io/v1beta2",
		} {
			refused(t, author.Create(t.Context(), class(kind, group)), "author", "a patch")
			must(t, reader.Create(t.Context(), class(kind, group)))
		}
		outside := class("x", "x")
		must(t, unstructured.SetNestedSlice(outside.Object, []any{map[string]any{
			"name": "x", "external": map[string]any{"generatePatchesExtension": "x.y"},
		}}, "spec", "patches"))
		refused(t, author.Create(t.Context(), outside.DeepCopy()), "a patch")
		must(t, reader.Create(t.Context(), outside.DeepCopy()))
	})
}
