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

// namesOfGroup is the number of objects whose names appear in the message of a group.
const namesOfGroup = 3

// bad are the conditions that report a problem when they are true; all other conditions report a problem when they are
// not true.
var bad = []string{
	clusterv1.PausedCondition, clusterv1.DeletingCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition,
	clusterv1.RemediatingCondition,
}

// Tree converts the result of DescribeCluster to a tree of package describe, which can write it with clusterctl's
// columns. Upstream's library does not include its own writer.
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

// order sorts as upstream does: by descending z-order, then by name.
func order(a, b client.Object) int {
	if d := tree.GetZOrder(b) - tree.GetZOrder(a); d != 0 {
		return d
	}
	return strings.Compare(nameOf(a), nameOf(b))
}

// nameOf returns what a line is about: an object, its role in the cluster, or the number of objects in a group.
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

// items returns the names of the objects in a group.
func items(o client.Object) []string {
	return strings.Split(tree.GetGroupItems(o), tree.GroupItemsSeparator)
}

// summarize uses the condition that sums up an object: Available if there is one, else Ready.
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

// conditionsOf returns the requested conditions, sorted by name.
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

// replicasOf returns the counts of an object: existing/desired, available, ready and up to date. Unknown counts are
// empty.
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

// sum adds the numbers at these paths. It returns "" if there are none.
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
