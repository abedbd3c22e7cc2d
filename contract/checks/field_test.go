package checks

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// definition returns a definition of an infrastructure provider with one version, these labels, and this schema.
func definition(kind, labels, schema string) string {
	plural := strings.ToLower(kind) + "s"
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + plural +
		".infrastructure.foo.example\n  labels: {" + labels + "}\nspec:\n  group: infrastructure.foo.example\n" +
		"  scope: Namespaced\n  names: {kind: " + kind + ", plural: " + plural + "}\n" +
		"  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n" +
		"      openAPIV3Schema: {type: object, properties: {" + schema + "}}\n---\n"
}

const (
	both = "cluster.x-k8s.io/v1beta1: v1, cluster.x-k8s.io/v1beta2: v1"
	// requiredSpec is the schema of a template whose spec.template.spec is required.
	requiredSpec = "spec: {type: object, required: [template], properties: {template: {type: object, " +
		"required: [spec], properties: {spec: {type: object, properties: {size: {type: string}}}}}}}"
	ready    = "ready: {type: boolean}"
	provided = "initialization: {type: object, properties: {provisioned: {type: boolean}}}"
)

func status(fields ...string) string {
	return "status: {type: object, properties: {" + strings.Join(fields, ", ") + "}}"
}

// manager returns a Deployment whose account has rights on all resources of a group.
func manager(group string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: m, namespace: n}\n" +
		"spec: {template: {spec: {serviceAccountName: m}}}\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: m}\n" +
		"rules: [{apiGroups: [" + group + "], resources: ['*'], verbs: [get]}]\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: m}\n" +
		"roleRef: {kind: ClusterRole, name: m}\nsubjects: [{kind: ServiceAccount, name: m, namespace: n}]\n"
}

// Each case is something that other providers do. The checks report it if it breaks a rule, but not if it only seems to
// break one.
func TestWhatProvidersDo(t *testing.T) {
	for name, c := range map[string]struct {
		check string
		file  string // name of the file
		text  string
		want  bool // whether the check finds something
	}{
		"a version with the fields of both contracts, under both labels": {
			"contract-label-once", "infrastructure-components.yaml",
			definition("FooCluster", both, status(ready, provided)), false,
		},
		"a version with the fields of one contract, under both labels": {
			"contract-label-once", "infrastructure-components.yaml",
			definition("FooCluster", both, status(provided)), true,
		},
		"a kind that is named Machine, but only describes what machines are made from": {
			"machine-provisioned", "infrastructure-components.yaml",
			definition("FooPoolMachine", both, "spec: {type: object, properties: {address: {type: string}}}"), false,
		},
		"a kind that is named Machine and has a provider ID": {
			"machine-provisioned", "infrastructure-components.yaml",
			definition("FooMachine", both, "spec: {type: object, properties: {providerID: {type: string}}}"), true,
		},
		"a kind that is named Machine and has a template": {
			"machine-provisioned", "infrastructure-components.yaml",
			definition("FooMachine", both, "spec: {type: object}") +
				definition("FooMachineTemplate", both, "spec: {type: object}"), true,
		},
		"a label that still names a version that is gone": {
			"contract-label-versions", "infrastructure-components.yaml",
			definition("FooCluster", "cluster.x-k8s.io/v1beta2: v0_v1", status(provided)), false,
		},
		"a label that still names a version that is gone, as a warning": {
			"contract-label-left-over", "infrastructure-components.yaml",
			definition("FooCluster", "cluster.x-k8s.io/v1beta2: v0_v1", status(provided)), true,
		},
		"a label whose last version does not exist": {
			"contract-label-versions", "infrastructure-components.yaml",
			definition("FooCluster", "cluster.x-k8s.io/v1beta2: v1_v2", status(provided)), true,
		},
		"a template that may not be empty, for an older contract only": {
			"class-schema", "infrastructure-components.yaml",
			definition("FooClusterTemplate", "cluster.x-k8s.io/v1beta1: v1, cluster.x-k8s.io/v1beta2: v2",
				requiredSpec), false,
		},
		"a template that may not be empty": {
			"class-schema", "infrastructure-components.yaml",
			definition("FooClusterTemplate", "cluster.x-k8s.io/v1beta1: v1", requiredSpec), true,
		},
		"a control plane with an empty machine template": {
			"control-plane-machines", "infrastructure-components.yaml",
			definition("FooControlPlane", both, "spec: {type: object, properties: {machineTemplate: {type: object}}}"), false,
		},
		"a control plane with a machine template that lacks the reference": {
			"control-plane-machines", "infrastructure-components.yaml",
			definition("FooControlPlane", both, "spec: {type: object, properties: {machineTemplate: "+
				"{type: object, properties: {metadata: {type: object}}}}}"), true,
		},
		"rights on what other providers define": {
			"least-rights", "infrastructure-components.yaml", manager("infrastructure.cluster.x-k8s.io"), false,
		},
		"rights on all resources of a group": {
			"least-rights", "infrastructure-components.yaml", manager("apps"), true,
		},
		"names of objects are restricted": {
			"definition-metadata", "infrastructure-components.yaml",
			definition("FooCluster", both, "metadata: {type: object, properties: {name: {type: string}}}"), false,
		},
		"labels of objects are restricted": {
			"definition-metadata", "infrastructure-components.yaml",
			definition("FooCluster", both, "metadata: {type: object, properties: {labels: {type: object}}}"), true,
		},
		"a namespace variable to which only some objects give a default": {
			"template-namespace", "cluster-template.yaml",
			"kind: A\nmetadata: {namespace: \"${NAMESPACE}\"}\n---\nkind: B\nmetadata: {namespace: \"${NAMESPACE:=default}\"}\n",
			false,
		},
		"two namespaces": {
			"template-namespace", "cluster-template.yaml",
			"kind: A\nmetadata: {namespace: \"${NAMESPACE}\"}\n---\nkind: B\nmetadata: {namespace: default}\n", true,
		},
		"a class that is named by a variable": {
			"class-name", "clusterclass-foo.yaml",
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: \"${CLASS}\"}\n", false,
		},
		"a class with another name than its file": {
			"class-name", "clusterclass-foo.yaml",
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: bar}\n", true,
		},
		"a referenced object that contains a variable in a list": {
			"template-references", "cluster-template.yaml",
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\n" +
				"spec: {infrastructureRef: {kind: FooCluster, name: a}}\n---\n" +
				"kind: FooCluster\nmetadata: {name: a}\nspec: {keys: [${KEYS}]}\n", false,
		},
		"a referenced object that is not in the file": {
			"template-references", "cluster-template.yaml",
			"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\n" +
				"spec: {infrastructureRef: {kind: FooCluster, name: a}}\n", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if found := found(t, c.check, map[string]string{c.file: c.text}); len(found) > 0 != c.want {
				t.Errorf("the check finds %+v, want findings: %t", found, c.want)
			}
		})
	}
}

// found returns what a check finds in a release with some files.
func found(t *testing.T, id string, with map[string]string) []check.Finding {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"metadata.yaml": "kind: Metadata\n", "infrastructure-components.yaml": "kind: X\n"}
	maps.Copy(files, with)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	releases, err := source.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	report := check.Run(Find(id), releases)
	if len(report.Failures)+len(report.Skipped) > 0 {
		t.Fatalf("the check did not run: %+v %+v", report.Failures, report.Skipped)
	}
	return slices.DeleteFunc(report.Findings, func(f check.Finding) bool { return f.Check != id })
}
