package release

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// componentFiles are all components files, with the label of the provider and the cluster-scoped kinds.
var componentFiles = map[string]string{
	InfrastructureComponents: Infrastructure, OwnCertificatesComponents: Infrastructure,
	RuntimeExtensionComponents: RuntimeExtension,
}

var clusterScoped = []string{"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding",
	"ValidatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ExtensionConfig"}

// eachComponents runs a test for each components file.
func eachComponents(t *testing.T, test func(t *testing.T, label string, text []byte,
	all []*unstructured.Unstructured)) {
	files := repository(t, options)
	for name, label := range componentFiles {
		t.Run(name, func(t *testing.T) {
			text := files.in(label, options.Version)[name]
			test(t, label, text, objects(t, text))
		})
	}
}

// TestComponentsHaveOneNamespace: all namespaced objects are in one namespace, and all objects have the provider's
// label.
func TestComponentsHaveOneNamespace(t *testing.T) {
	eachComponents(t, func(t *testing.T, label string, _ []byte, all []*unstructured.Unstructured) {
		namespaces, made := map[string]bool{}, 0
		for _, o := range all {
			if o.GetKind() == "Namespace" {
				namespaces[o.GetName()] = true
				made++
			}
			if slices.Contains(clusterScoped, o.GetKind()) != (o.GetNamespace() == "") {
				t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
			}
			if got := o.GetLabels()["cluster.x-k8s.io/provider"]; got != label {
				t.Errorf("%s %s has the label of provider %q, want %q", o.GetKind(), o.GetName(), got, label)
			}
			t.Attr("rule", "CT-60")
		}
		if made > 1 {
			t.Errorf("%d Namespaces: clusterctl aborts with more than one", made)
		}
		t.Attr("rule", "CT-45")
		if len(namespaces) != 1 || made != 1 {
			t.Fatalf("namespaces are %v, want one", namespaces)
		}
		t.Attr("rule", "CT-44")
		for _, o := range all {
			if !namespaces[o.GetNamespace()] && o.GetNamespace() != "" {
				t.Errorf("%s %s is in %s, not in %v", o.GetKind(), o.GetName(), o.GetNamespace(), namespaces)
			}
			for _, s := range subjects(t, o) {
				if s.Namespace != "" && !namespaces[s.Namespace] {
					t.Errorf("%s %s binds %s in %s, not in %v", o.GetKind(), o.GetName(), s.Name, s.Namespace, namespaces)
				}
			}
			t.Attr("rule", "CT-47")
		}
	})
}

// subjects returns the subjects of a binding, and none for another object.
func subjects(t *testing.T, o *unstructured.Unstructured) []rbacv1.Subject {
	t.Helper()
	if !strings.HasSuffix(o.GetKind(), "RoleBinding") {
		return nil
	}
	return convert[rbacv1.ClusterRoleBinding](t, o).Subjects
}

// TestComponentsAreClosed follows each reference from one component to another.
func TestComponentsAreClosed(t *testing.T) {
	eachComponents(t, func(t *testing.T, _ string, text []byte, all []*unstructured.Unstructured) {
		has := map[string]bool{}
		for _, o := range all {
			has[o.GetKind()+"/"+o.GetName()] = true
			if o.GetKind() == "Certificate" {
				secret, _, _ := unstructured.NestedString(o.Object, "spec", "secretName")
				has["Secret/"+secret] = true
			}
		}
		needs := func(by *unstructured.Unstructured, what string) {
			t.Helper()
			if !has[what] {
				t.Errorf("%s %s needs %s, which is not among the components", by.GetKind(), by.GetName(), what)
			}
			t.Attr("rule", "CT-36")
			t.Attr("rule", "CT-92")
		}
		references := 0
		for _, o := range all {
			switch o.GetKind() {
			case "Deployment":
				d := convert[appsv1.Deployment](t, o)
				needs(o, "ServiceAccount/"+d.Spec.Template.Spec.ServiceAccountName)
				for _, v := range d.Spec.Template.Spec.Volumes {
					if v.Secret != nil {
						needs(o, "Secret/"+v.Secret.SecretName)
					}
				}
				references++
			case "RoleBinding", "ClusterRoleBinding":
				b := convert[rbacv1.ClusterRoleBinding](t, o)
				needs(o, b.RoleRef.Kind+"/"+b.RoleRef.Name)
				for _, s := range b.Subjects {
					needs(o, s.Kind+"/"+s.Name)
				}
				references++
			case "Certificate":
				issuer, _, _ := unstructured.NestedString(o.Object, "spec", "issuerRef", "name")
				needs(o, "Issuer/"+issuer)
			}
			if from := o.GetAnnotations()["cert-manager.io/inject-ca-from"]; from != "" {
				_, name, _ := strings.Cut(from, "/")
				needs(o, "Certificate/"+name)
			}
			if o.GetKind() == "CustomResourceDefinition" || o.GetKind() == "ValidatingWebhookConfiguration" ||
				o.GetKind() == "ExtensionConfig" {
				for _, name := range services(t, o) {
					needs(o, "Service/"+name)
					references++
				}
			}
		}
		if references < 3 {
			t.Errorf("only %d references found in %d bytes: the test looks in the wrong place", references, len(text))
		}
	})
}

// services finds the names of Services in all clientConfigs of an object.
func services(t *testing.T, o *unstructured.Unstructured) (names []string) {
	t.Helper()
	data, err := json.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"service":\{[^}]*"name":"([^"]+)"`).FindAllSubmatch(data, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

func convert[T any](t *testing.T, o *unstructured.Unstructured) T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}

// TestDeployments checks the Deployments of the controllers and the extension.
func TestDeployments(t *testing.T) {
	eachComponents(t, func(t *testing.T, _ string, _ []byte, all []*unstructured.Unstructured) {
		found := 0
		for _, o := range all {
			switch o.GetKind() {
			case "Pod", "DaemonSet", "StatefulSet", "Job":
				t.Errorf("%s %s: clusterctl waits only for Deployments", o.GetKind(), o.GetName())
			case "Deployment":
				found++
				deployment(t, convert[appsv1.Deployment](t, o))
			}
		}
		if found != 1 {
			t.Errorf("%d Deployments, want 1", found)
		}
		t.Attr("rule", "CT-48")
	})
}

func deployment(t *testing.T, d appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if len(pod.Containers) != 1 || pod.Containers[0].Name != "manager" {
		t.Fatalf("containers are %v, want manager alone", pod.Containers)
	}
	t.Attr("rule", "CT-49")
	c := pod.Containers[0]
	for _, arg := range c.Args {
		if strings.HasPrefix(arg, "--namespace") {
			t.Errorf("argument %s limits the program, which must watch all namespaces", arg)
		}
	}
	t.Attr("rule", "RX-42")
	t.Attr("rule", "CT-51")
	if c.LivenessProbe == nil || c.ReadinessProbe == nil {
		t.Error("a probe is missing")
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() ||
		c.Resources.Limits.Memory().IsZero() {
		t.Errorf("resources are %+v", c.Resources)
	}
	for label, value := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[label] != value {
			t.Errorf("the selector requires the label %s=%s, which Pods don't have", label, value)
		}
	}
	if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("security of the Pod: %+v", pod.SecurityContext)
	}
	s := c.SecurityContext
	if *s.AllowPrivilegeEscalation || *s.Privileged || !*s.ReadOnlyRootFilesystem || *s.RunAsUser != NonRoot ||
		len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("security of the container: %+v", s)
	}
	t.Attr("rule", "RX-38")
	if pod.ServiceAccountName == "" || pod.ServiceAccountName == "default" {
		t.Errorf("service account %q", pod.ServiceAccountName)
	}
	t.Attr("rule", "RX-36")
}

// TestExtensionOutlivesANode checks that one replica of the extension answers while the other's Node is drained or its
// Pod is replaced.
func TestExtensionOutlivesANode(t *testing.T) {
	var d appsv1.Deployment
	var budget policyv1.PodDisruptionBudget
	for _, o := range objects(t, repository(t, options).in(RuntimeExtension,
		options.Version)[RuntimeExtensionComponents]) {
		switch o.GetKind() {
		case "Deployment":
			d = convert[appsv1.Deployment](t, o)
		case "PodDisruptionBudget":
			budget = convert[policyv1.PodDisruptionBudget](t, o)
		}
	}
	if *d.Spec.Replicas < 2 || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 ||
		budget.Spec.MinAvailable.IntValue() != 1 {
		t.Errorf("%d replicas, strategy %+v, budget %+v", *d.Spec.Replicas, d.Spec.Strategy, budget.Spec)
	}
	t.Attr("rule", "RX-35")
	pods := labels.Set(d.Spec.Template.Labels)
	for what, selector := range map[string]*metav1.LabelSelector{
		"budget": budget.Spec.Selector, "spread": d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		if s, err := metav1.LabelSelectorAsSelector(selector); err != nil || s.Empty() || !s.Matches(pods) {
			t.Errorf("%s selects %v, Pods have %v: %v", what, selector, pods, err)
		}
	}
	if c := d.Spec.Template.Spec.Containers[0]; !slices.Contains(c.Args, "--lease-namespace=$(NAMESPACE)") ||
		c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.namespace" {
		t.Errorf("replicas don't know where their Leases are: %v %v", c.Args, c.Env)
	}
}

// TestImageNames: container runtimes accept the names, and with a prefix they are canonical.
func TestImageNames(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                             "localhost/capstan-manager:v0.1.0",
		"registry.example.com/capstan": "registry.example.com/capstan/capstan-manager:v0.1.0",
	} {
		o := options
		o.ImagePrefix = prefix
		text := string(repository(t, o).in(Infrastructure, o.Version)[InfrastructureComponents])
		if !strings.Contains(text, "image: "+want+"\n") || strings.Contains(text, ":latest") {
			t.Errorf("with prefix %q there is no image %s", prefix, want)
		}
		if _, err := reference.ParseNamed(want); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		t.Attr("rule", "CT-52")
	}
	for _, prefix := range []string{"capstan", "Registry.example.com/Capstan", "registry.example.com/capstan/"} {
		o := options
		o.ImagePrefix = prefix
		if _, err := Repository(o); (err != nil) != (prefix != "registry.example.com/capstan/") {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// TestRolesHaveNoWildcards checks rules and resources (least privilege).
func TestRolesHaveNoWildcards(t *testing.T) {
	eachComponents(t, func(t *testing.T, label string, _ []byte, all []*unstructured.Unstructured) {
		aggregated := false
		for _, o := range all {
			if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
				continue
			}
			aggregated = aggregated || o.GetLabels()["cluster.x-k8s.io/aggregate-to-manager"] == "true"
			for _, r := range convert[rbacv1.ClusterRole](t, o).Rules {
				if slices.Contains(slices.Concat(r.APIGroups, r.Resources, r.Verbs), "*") {
					t.Errorf("%s %s has a rule with a wildcard: %v", o.GetKind(), o.GetName(), r)
				}
				t.Attr("rule", "RB-12")
			}
		}
		if aggregated != (label == Infrastructure) {
			t.Errorf("there is a role for Cluster API's core: %v", aggregated)
		}
	})
}

// TestOwnCertificatesNeedNoCertManager: the file contains nothing of cert-manager.
func TestOwnCertificatesNeedNoCertManager(t *testing.T) {
	text := string(repository(t, options).in(Infrastructure, options.Version)[OwnCertificatesComponents])
	if strings.Contains(text, "cert-manager") {
		t.Error("the components without cert-manager mention it")
	}
	if !strings.Contains(text, "--webhook-own-certificates") || strings.Contains(text, "--webhook-cert-dir") {
		t.Error("the manager does not have the flag to make its own certificates")
	}
}
