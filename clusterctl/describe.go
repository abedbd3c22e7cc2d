package clusterctl

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/tree"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namesOfGroup is how many objects of a group are named in its message.
const namesOfGroup = 3

// bad are conditions that are of interest when they are true; all others are when they are not.
var bad = []string{
	clusterv1.PausedCondition, clusterv1.DeletingCondition, clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition,
	clusterv1.RemediatingCondition,
}

// WriteTree writes what DescribeCluster returns, with the columns of clusterctl: upstream's own writer is not a part of its library. now is what ages count from.
func WriteTree(w io.Writer, t *tree.ObjectTree, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.TrimRight(strings.Join(cells, "\t"), "\t")) }
	row("NAME", "REPLICAS", "AVAILABLE", "READY", "UP TO DATE", "STATUS", "REASON", "SINCE", "MESSAGE")
	var walk func(o client.Object, lead, branch string)
	walk = func(o client.Object, lead, branch string) {
		children := t.GetObjectsByParent(o.GetUID())
		slices.SortStableFunc(children, order)
		below := lead
		switch branch {
		case "├─":
			below += "│ "
		case "└─":
			below += "  "
		}
		stem := below // before further lines of a message
		if len(children) > 0 {
			stem += "│"
		}
		shown := conditionsOf(o)
		state := stateOf(o, now)
		if len(shown) > 0 {
			state = cells{}
		}
		for i, message := range strings.Split(state.message, "\n") {
			if i == 0 {
				row(append(append([]string{lead + branch + nameOf(o)}, counters(o)...), state.status, state.reason, state.since, message)...)
			} else {
				row(stem, "", "", "", "", "", "", "", message)
			}
		}
		for _, c := range shown {
			for i, message := range strings.Split(strings.TrimSpace(c.Message), "\n") {
				if i == 0 {
					row(stem+"  "+c.Type, "", "", "", "", string(c.Status), c.Reason, since(c.LastTransitionTime, now), message)
				} else {
					row(stem, "", "", "", "", "", "", "", message)
				}
			}
		}
		for i, child := range children {
			branch := "├─"
			if i == len(children)-1 {
				branch = "└─"
			}
			walk(child, below, branch)
		}
	}
	walk(t.GetRoot(), "", "")
	return table.Flush()
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

// cells are those of a line that come from a condition.
type cells struct{ status, reason, since, message string }

// stateOf takes the condition that sums up an object: Available where there is one, else Ready.
func stateOf(o client.Object, now time.Time) (s cells) {
	c := tree.GetAvailableCondition(o)
	if c == nil || tree.IsGroupObject(o) {
		c = tree.GetReadyCondition(o)
	}
	if c != nil {
		s = cells{c.Type + ": " + string(c.Status), c.Reason, since(c.LastTransitionTime, now), strings.TrimSpace(c.Message)}
	}
	if tree.IsGroupObject(o) {
		names := items(o)
		s.message = "See " + strings.Join(names[:min(namesOfGroup, len(names))], ", ")
		if len(names) > namesOfGroup {
			s.message += ", ..."
		}
	}
	return s
}

func since(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(t.Time))
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

// counters are the replicas of an object as there are / as wanted, and how many are available, ready and up to date; empty where that is not known.
func counters(o client.Object) []string {
	one := func(c *metav1.Condition) string {
		if c != nil && c.Status == metav1.ConditionTrue {
			return "1"
		}
		return "0"
	}
	kind := o.GetObjectKind().GroupVersionKind().Kind
	switch {
	case tree.IsGroupObject(o):
		return []string{strconv.Itoa(len(items(o))), strconv.Itoa(tree.GetGroupItemsAvailableCounter(o)), strconv.Itoa(tree.GetGroupItemsReadyCounter(o)), strconv.Itoa(tree.GetGroupItemsUpToDateCounter(o))}
	case kind == "Machine":
		return []string{"1", one(tree.GetAvailableCondition(o)), one(tree.GetReadyCondition(o)), one(tree.GetMachineUpToDateCondition(o))}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return []string{"", "", "", ""}
	}
	counted := func(field string) string {
		sum, known := int64(0), false
		paths := [][]string{{"status", field}}
		if kind == "Cluster" {
			paths = [][]string{{"status", "controlPlane", field}, {"status", "workers", field}}
		}
		if field == "desired" {
			paths = [][]string{{"spec", "replicas"}}
			if kind == "Cluster" {
				paths = [][]string{{"status", "controlPlane", "desiredReplicas"}, {"status", "workers", "desiredReplicas"}}
			}
		}
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
	replicas := counted("replicas")
	if desired := counted("desired"); replicas != "" && desired != "" {
		replicas += "/" + desired
	}
	return []string{replicas, counted("availableReplicas"), counted("readyReplicas"), counted("upToDateReplicas")}
}
