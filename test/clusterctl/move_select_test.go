//go:build linux

package clusterctl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// The variable beside lists objects in the namespace of a cluster whose owner references do not lead to the cluster.
// The values say whether a move takes the object. Each object covers a case of clusterctl: a ClusterResourceSet, an
// object that moves with its hierarchy, a single object, and an object that clusterctl has no reason to move.
var beside = map[string]bool{
	"resource-set-objects": true, "hierarchy": true, "of-hierarchy": true, "alone": true, "c1-ca": true,
	"unrelated": false, "unrelated-secret": false,
}

// global is a cluster-scoped kind that clusterctl moves: a provider's identities.
const global = "Identity"

// identityNamed returns an object of kind Identity.
func identityNamed(name, says string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"says": says}}
	o.SetAPIVersion("example.com/v1")
	o.SetKind(global)
	o.SetName(name)
	o.SetLabels(map[string]string{clusterctlv1.ClusterctlMoveHierarchyLabel: ""})
	return o
}

// knowsIdentities defines the kind Identity, with the label that clusterctl init sets on the definitions of providers.
func (s side) knowsIdentities() {
	s.Helper()
	crd := standIn("identities", global)
	crd.Name, crd.Spec.Group, crd.Spec.Scope = "identities.example.com", "example.com", apiextensionsv1.ClusterScoped
	crd.Labels = map[string]string{
		clusterctlv1.ClusterctlLabel: "",
		clusterv1.ProviderNameLabel:  "infrastructure-capstan",
	}
	s.must(s.apply(crd))
	s.until("identities can be made", func() bool {
		return s.api.Create(s.Context(), identityNamed("probe", ""), dryRun) == nil
	})
}

// apply creates an object with a client that knows the type CustomResourceDefinition.
func (s side) apply(o client.Object) error {
	settings, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	scheme := s.api.Scheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.New(settings, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return c.Create(s.Context(), o)
}

// populateBeside creates, in the source, the objects that the variable beside lists. It creates some of them also in
// the target, where they then exist before the move.
func (s side) populateBeside(to side) {
	s.Helper()
	s.knowsIdentities()
	to.knowsIdentities()
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"clusterSelector": map[string]any{"matchLabels": map[string]any{"network": "ours"}},
		"resources":       []any{map[string]any{"kind": "ConfigMap", "name": "resource-set-objects"}},
	}}}
	set.SetAPIVersion("addons.cluster.x-k8s.io/v1beta2")
	set.SetKind("ClusterResourceSet")
	set.SetName("resource-set")
	s.create(set)
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "resource-set-objects"}}, set)
	labelled := func(name, label string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}}
	}
	root := &corev1.ConfigMap{ObjectMeta: labelled("hierarchy", clusterctlv1.ClusterctlMoveHierarchyLabel)}
	s.create(root)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-hierarchy"}}, root)
	alone := func(says string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: labelled(
				"alone",
				clusterctlv1.ClusterctlMoveLabel,
			), Data: map[string][]byte{"says": []byte(says)},
		}
	}
	s.create(alone("of the source"))
	to.create(alone("of the target"))
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unrelated-secret"}})

	first := identityNamed("first", "of the source")
	s.must(s.api.Create(s.Context(), first))
	s.createIn("capstan-system", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-identity"}}, first)
	s.must(s.api.Create(s.Context(), identityNamed("both", "of the source")))
	to.must(to.api.Create(s.Context(), identityNamed("both", "of the target")))
}

// says returns the content of an Identity, or "" if it doesn't exist.
func (s side) says(name string) string {
	s.Helper()
	o := identityNamed(name, "")
	err := s.api.Get(s.Context(), client.ObjectKey{Name: name}, o)
	s.must(client.IgnoreNotFound(err))
	says, _ := o.Object["says"].(string)
	if err != nil {
		return ""
	}
	return says
}

// movedBeside checks what a move has done with the objects that the variable beside lists.
func (s side) movedBeside(to side) {
	s.Helper()
	for name, moves := range beside {
		var o client.Object = &corev1.Secret{}
		if !s.has(o, name) && !to.has(o, name) {
			o = &corev1.ConfigMap{}
		}
		if here, there := s.has(o, name), to.has(o, name); there != moves || here == moves {
			s.Errorf("%s is in the source: %t, in the target: %t; want it to move: %t", name, here, there, moves)
		}
	}
	s.Attr("rule", "CT-95")
	if !to.has(&corev1.ConfigMap{}, "hierarchy") || !to.has(&corev1.Secret{}, "of-hierarchy") ||
		to.says("first") == "" {
		s.Error("clusterctl did not move a ConfigMap, a Secret or an object of a provider's kind")
	}
	s.Attr("rule", "CT-94")
	alone := &corev1.Secret{}
	if to.has(alone, "alone"); string(alone.Data["says"]) != "of the source" {
		s.Errorf("the Secret that was already in the target was not updated: it says %q", alone.Data["says"])
	}
	if s.has(&corev1.Secret{}, "alone") {
		s.Error("a Secret that has moved is still in the source")
	}
	s.Attr("rule", "CT-97")
	if got := to.says("first"); got != "of the source" {
		s.Errorf("the global object that the target lacked was not made there: it says %q", got)
	}
	if got := to.says("both"); got != "of the target" {
		s.Errorf("the global object that was already in the target was changed: it says %q", got)
	}
	if s.says("first") == "" || s.says("both") == "" {
		s.Error("a global object was removed from the source")
	}
	s.Attr("rule", "CT-98")
	inSystem := client.ObjectKey{Namespace: "capstan-system", Name: "of-identity"}
	for where, one := range map[string]side{"source": s, "target": to} {
		if err := one.api.Get(s.Context(), inSystem, &corev1.Secret{}); err != nil {
			s.Errorf("the Secret of a global object is not in the %s: %v", where, err)
		}
	}
	s.Attr("rule", "CT-99")
}

// labelledByInit fails the test if a definition of ours lacks the label by which clusterctl finds the objects to move.
func (s side) labelledByInit() {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apiextensions.k8s.io/v1")
	list.SetKind("CustomResourceDefinitionList")
	s.must(s.api.List(s.Context(), list, client.HasLabels{clusterctlv1.ClusterctlLabel}))
	found := map[string]bool{}
	for _, o := range list.Items {
		found[strings.TrimSuffix(o.GetName(), ".infrastructure.capstan.dev")] = true
	}
	for _, name := range []string{
		"capstanclusters", "capstanclustertemplates", "capstanhosts", "capstanmachines", "capstanmachinetemplates",
	} {
		if !found[name] {
			s.Errorf(
				"the definition of %s lacks clusterctl's label, which is on %v",
				name,
				slices.Sorted(maps.Keys(found)),
			)
		}
	}
	s.Attr("rule", "CT-103")
}

// farewell watches the CapstanMachines of the source. It returns a function that waits until one is deleted, and
// returns its last state.
func (s side) farewell() (last func() (*infrav1.CapstanMachine, error)) {
	s.Helper()
	settings, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	s.must(err)
	c, err := client.NewWithWatch(settings, client.Options{Scheme: s.api.Scheme()})
	s.must(err)
	events, err := c.Watch(s.Context(), &infrav1.CapstanMachineList{}, client.InNamespace("blue"))
	s.must(err)
	s.Cleanup(events.Stop)
	return func() (*infrav1.CapstanMachine, error) {
		for {
			select {
			case e, ok := <-events.ResultChan():
				if !ok {
					return nil, fmt.Errorf("the watch ended")
				}
				if m, ok := e.Object.(*infrav1.CapstanMachine); ok && e.Type == watch.Deleted {
					return m, nil
				}
			case <-s.Context().Done():
				return nil, s.Context().Err()
			}
		}
	}
}
