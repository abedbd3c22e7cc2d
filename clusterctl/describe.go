package clusterctl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/tree"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/describe"
)

// namesOfGroup is how many objects of a group are named in its message.
const namesOfGroup = 3

// bad are conditions that are of interest when they are true; all others are when they are not.
var bad = []string{
	clusterv1.PausedCondition, clusterv1.DeletingCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition,
	clusterv1.RemediatingCondition,
}

// Tree returns what DescribeCluster found as a tree of package describe, which writes it with the columns of
// clusterctl: upstream's own writer is not a part of its library.
func Tree(t *tree.ObjectTree) *describe.Node {
	var walk func(o client.Object) *describe.Node
	walk = func(o client.Object) *describe.Node {
		n := &describe.Node{Name: nameOf(o), Replicas: replicasOf(o), Conditions: conditionsOf(o)}
		if len(n.Conditions) == 0 {
			summarize(o, n)
		}
		children := t.GetObjectsByParent(o.GetUID())
		slices.SortStableFunc(children, order)
		for _, child := range children {
			n.Children = append(n.Children, walk(child))
		}
		return n
	}
	return walk(t.GetRoot())
}

// order is upstream's: what stands for more comes first, then names.
func order(a, b client.Object) int {
	if d := tree.GetZOrder(b) - tree.GetZOrder(a); d != 0 {
		return d
	}
	return strings.Compare(nameOf(a), nameOf(b))
}

// nameOf is what a line is about: an object, what it is for the cluster, or how many objects it stands for.
func nameOf(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	var name string
	switch {
	case tree.IsGroupObject(o):
		name = fmt.Sprintf("%d %ss...", len(items(o)), strings.TrimSuffix(kind, "Group"))
	case tree.IsVirtualObject(o):
		name = o.GetName()
	default:
		name = kind + "/" + o.GetName()
	}
	if role := tree.GetMetaName(o); role != "" {
		name = role + " - " + name
	}
	if o.GetDeletionTimestamp() != nil {
		name += " (being deleted)"
	}
	return name
}

// items are the names of the objects that a line stands for.
func items(o client.Object) []string {
	return strings.Split(tree.GetGroupItems(o), tree.GroupItemsSeparator)
}

// summarize takes the condition that sums up an object: Available where there is one, else Ready.
func summarize(o client.Object, n *describe.Node) {
	c := tree.GetAvailableCondition(o)
	if c == nil || tree.IsGroupObject(o) {
		c = tree.GetReadyCondition(o)
	}
	if c != nil {
		n.State, n.Reason, n.Since = c.Type+": "+string(c.Status), c.Reason, c.LastTransitionTime.Time
		n.Message = strings.TrimSpace(c.Message)
	}
	if tree.IsGroupObject(o) {
		names := items(o)
		n.Message = "See " + strings.Join(names[:min(namesOfGroup, len(names))], ", ")
		if len(names) > namesOfGroup {
			n.Message += ", ..."
		}
	}
}

// conditionsOf are the conditions that were asked for, by name.
func conditionsOf(o client.Object) []metav1.Condition {
	filter := tree.ShowConditionsFilter(o)
	if filter == tree.ShownNoConditions {
		return nil
	}
	var shown []metav1.Condition
	for _, c := range tree.GetConditions(o) {
		expected := metav1.ConditionTrue
		if slices.Contains(bad, c.Type) {
			expected = metav1.ConditionFalse
		}
		if filter == tree.ShowAllConditions || c.Status != expected {
			shown = append(shown, c)
		}
	}
	slices.SortFunc(shown, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return shown
}

// replicasOf counts an object as there are / as wanted, and how many are available, ready and up to date; empty where
// that is not known.
func replicasOf(o client.Object) describe.Replicas {
	one := func(c *metav1.Condition) string {
		if c != nil && c.Status == metav1.ConditionTrue {
			return "1"
		}
		return "0"
	}
	kind := o.GetObjectKind().GroupVersionKind().Kind
	switch {
	case tree.IsGroupObject(o):
		return describe.Replicas{
			All: strconv.Itoa(len(items(o))), Available: strconv.Itoa(tree.GetGroupItemsAvailableCounter(o)),
			Ready:    strconv.Itoa(tree.GetGroupItemsReadyCounter(o)),
			UpToDate: strconv.Itoa(tree.GetGroupItemsUpToDateCounter(o)),
		}
	case kind == "Machine":
		return describe.Replicas{
			All: "1", Available: one(tree.GetAvailableCondition(o)), Ready: one(tree.GetReadyCondition(o)),
			UpToDate: one(tree.GetMachineUpToDateCondition(o)),
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return describe.Replicas{}
	}
	counted := func(field string) string {
		paths := [][]string{{"status", field}}
		switch {
		case kind == "Cluster" && field == "desired":
			paths = [][]string{{"status", "controlPlane", "desiredReplicas"}, {"status", "workers", "desiredReplicas"}}
		case kind == "Cluster":
			paths = [][]string{{"status", "controlPlane", field}, {"status", "workers", field}}
		case field == "desired":
			paths = [][]string{{"spec", "replicas"}}
		}
		return sum(content, paths)
	}
	found := describe.Replicas{
		All: counted("replicas"), Available: counted("availableReplicas"),
		Ready: counted("readyReplicas"), UpToDate: counted("upToDateReplicas"),
	}
	if desired := counted("desired"); found.All != "" && desired != "" {
		found.All += "/" + desired
	}
	return found
}

// sum adds the numbers at these paths; empty if there is none.
func sum(content map[string]any, paths [][]string) string {
	sum, known := int64(0), false
	for _, path := range paths {
		if n, ok, err := unstructured.NestedInt64(content, path...); ok && err == nil {
			sum, known = sum+n, true
		}
	}
	if !known {
		return ""
	}
	return strconv.FormatInt(sum, 10)
}
