package extension

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/extension"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// manifests returns the objects that kubectl apply -k config/extension would apply.
func manifests(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	kube, err := apiserver.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(kube, "kubectl", "kustomize", apiserver.Root()+"/config/extension").Output()
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq(out, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

func typed[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	if i < 0 {
		t.Fatalf("there is no %s", kind)
	}
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, into,
		true); err != nil {
		t.Fatal(err)
	}
	return into
}

// TestTheAPIServerTakesTheManifests: the API server accepts every object, and admits the Pods into a namespace with the
// strictest profile.
func TestTheAPIServerTakesTheManifests(t *testing.T) {
	objects := manifests(t)
	namespace := typed[corev1.Namespace](t, objects, "Namespace")
	if namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace does not enforce the restricted profile: labels %v", namespace.Labels)
	}
	create(t, namespace.DeepCopy())
	for _, object := range objects {
		options := []client.ApplyOption{client.DryRunAll, client.FieldOwner("test"), client.ForceOwnership}
		if err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	deployment := typed[appsv1.Deployment](t, objects, "Deployment")
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: deployment.Spec.Template.Spec.ServiceAccountName},
	}
	create(t, account)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "p", Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("a Pod of the Deployment is not admitted: %v", err)
	}
	pod.Spec.HostNetwork = true
	if err := admin.Create(context.Background(), pod, client.DryRunAll); err == nil ||
		!strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("a Pod in the host's network was not refused: %v", err)
	}
}

// TestManifestsFitTogether compares what several manifests name: selectors, ports, the Secret, and the Service that is
// called.
func TestManifestsFitTogether(t *testing.T) {
	objects := manifests(t)
	deployment := typed[appsv1.Deployment](t, objects, "Deployment")
	service := typed[corev1.Service](t, objects, "Service")
	budget := typed[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")
	config := typed[runtimev1.ExtensionConfig](t, objects, "ExtensionConfig")
	podLabels := labels.Set(deployment.Spec.Template.Labels)
	for what, selector := range map[string]map[string]string{
		"Deployment": deployment.Spec.Selector.MatchLabels, "Service": service.Spec.Selector,
		"PodDisruptionBudget": budget.Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(podLabels) {
			t.Errorf("%s selects %v, Pods have %v", what, selector, podLabels)
		}
	}
	if *deployment.Spec.Replicas < 2 || budget.Spec.MinAvailable.IntValue() < 1 ||
		budget.Spec.MinAvailable.IntValue() >= int(*deployment.Spec.Replicas) {
		t.Errorf("%d replicas, of which %v must stay available", *deployment.Spec.Replicas, budget.Spec.MinAvailable)
	}
	t.Attr("rule", "RX-32")
	t.Attr("rule", "RX-35")
	container := deployment.Spec.Template.Spec.Containers[0]
	args := strings.Join(container.Args, " ")
	for _, port := range container.Ports {
		if !strings.Contains(args, "=:"+strconv.Itoa(int(port.ContainerPort))) {
			t.Errorf("nothing listens on port %s: %s", port.Name, args)
		}
	}
	target := service.Spec.Ports[0].TargetPort.StrVal
	if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == target }) {
		t.Errorf("the Service leads to port %q, which the container does not have", target)
	}
	t.Attr("rule", "RX-29")
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service is of type %s, want ClusterIP", service.Spec.Type)
	}
	t.Attr("rule", "RX-33")
	host := service.Name + "." + service.Namespace + ".svc"
	secret := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]
	called := config.Spec.ClientConfig.Service
	if !slices.Contains(container.Args, "--cert-hosts="+host) || called.Name+"."+called.Namespace+".svc" != host ||
		*called.Port != service.Spec.Ports[0].Port {
		t.Errorf("the Deployment has the arguments %s, the Service is %s, the ExtensionConfig calls %+v",
			args, host, called)
	}
	namespace, name, _ := strings.Cut(secret, "/")
	role := typed[rbacv1.Role](t, objects, "Role")
	if !slices.Contains(container.Args, "--cert-secret="+secret) || namespace != deployment.Namespace ||
		role.Namespace != namespace || !slices.Contains(role.Rules[0].ResourceNames, name) {
		t.Errorf("the Deployment has the arguments %s, the ExtensionConfig reads Secret %s, the Role names %v",
			args, secret, role.Rules[0].ResourceNames)
	}
	t.Attr("rule", "RX-40")
	if config.Name != extension.Name {
		t.Errorf("the ExtensionConfig is named %s, the extension %s", config.Name, extension.Name)
	}
	if typed[corev1.ServiceAccount](t, objects, "ServiceAccount").
		Name != deployment.Spec.Template.Spec.ServiceAccountName {
		t.Error("the ServiceAccount is not that of the Pods")
	}
}
