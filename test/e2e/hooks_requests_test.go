package e2e

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// hooksVersion is the apiVersion of the lifecycle hooks, in JSON.
const hooksVersion = `"hooks.runtime.cluster.x-k8s.io/v1alpha1"`

// fields returns the fields of a hook's request, except apiVersion, kind, settings and cluster.
func fields(hook, from, to string) map[string]string {
	step := `[{"version":"` + to + `"}]`
	before := map[string]string{"fromKubernetesVersion": `"` + from + `"`, "toKubernetesVersion": `"` + to + `"`}
	after := map[string]string{"kubernetesVersion": `"` + to + `"`}
	switch hook { // an upgrade over one minor release has one step; the lists contain the steps that are left
	case "BeforeClusterUpgrade", "BeforeControlPlaneUpgrade":
		before["controlPlaneUpgrades"], before["workersUpgrades"] = step, step
		return before
	case "AfterControlPlaneUpgrade":
		after["workersUpgrades"] = step
		return after
	case "BeforeWorkersUpgrade":
		before["workersUpgrades"] = step
		return before
	case "AfterWorkersUpgrade", "AfterClusterUpgrade":
		return after
	}
	return nil
}

// checkExchanges checks the requests that the extensions received and their answers. Each request must have exactly the
// fields of its hook, and a Cluster that is complete except for its status. Each answer must have the fields of its
// hook. Each of these hooks must have at least one request and one answer.
func checkExchanges(t *testing.T, a *actor, cluster, from, to string, hooks ...string) {
	t.Helper()
	for _, hook := range hooks {
		requests, answers := 0, 0
		for _, extension := range []string{one, two, ignored} {
			for _, c := range a.calls(extension, hook) {
				requests++
				checkRequest(t, hook, cluster, c.Request, fields(hook, from, to))
			}
			for _, c := range a.answers(extension, hook) {
				answers++
				checkAnswer(t, hook, c.Answer)
			}
		}
		if requests == 0 || answers == 0 {
			t.Errorf("%s has %d requests and %d answers", hook, requests, answers)
		}
		t.Attr("rule", "LH-01")
		recordFields(t, hook)
	}
}

// recordFields records the rule about the fields of a hook.
func recordFields(t *testing.T, hook string) {
	t.Helper()
	switch hook {
	case "BeforeClusterCreate":
		t.Attr("rule", "LH-07")
	case "AfterControlPlaneInitialized":
		t.Attr("rule", "LH-10")
	case "BeforeClusterUpgrade":
		t.Attr("rule", "LH-16")
	case "AfterControlPlaneUpgrade":
		t.Attr("rule", "LH-20")
	case "AfterClusterUpgrade":
		t.Attr("rule", "LH-23")
	case "BeforeClusterDelete":
		t.Attr("rule", "LH-26")
	}
}

// checkRequest checks that a request has the common fields and the fields of its hook.
func checkRequest(t *testing.T, hook, cluster string, request map[string]json.RawMessage, want map[string]string) {
	t.Helper()
	got := maps.Clone(request)
	for name, value := range map[string]string{
		"apiVersion": hooksVersion, "kind": `"` + hook + `Request"`, "settings": `{"from":"test"}`,
	} {
		if string(got[name]) != value {
			t.Errorf("%s of %s is %s, want %s", name, hook, got[name], value)
		}
		delete(got, name)
	}
	checkClusterInRequest(t, hook, cluster, got["cluster"])
	delete(got, "cluster")
	if !maps.EqualFunc(got, want, func(is json.RawMessage, wanted string) bool { return string(is) == wanted }) {
		t.Errorf("besides the common fields, the request of %s has %s, want %v", hook, got, want)
	}
}

// checkAnswer checks that an answer has its kind and its status, and that a failure has a message. Only the answer to a
// hook that can block must say when to call again.
func checkAnswer(t *testing.T, hook string, answer map[string]json.RawMessage) {
	t.Helper()
	rest := maps.Clone(answer)
	for name, values := range map[string][]string{
		"apiVersion": {hooksVersion}, "kind": {`"` + hook + `Response"`}, "status": {`"Success"`, `"Failure"`},
	} {
		if !slices.Contains(values, string(rest[name])) {
			t.Errorf("%s of the answer to %s is %s, want one of %s", name, hook, rest[name], values)
		}
		delete(rest, name)
	}
	message, said := rest["message"]
	if failed := string(answer["status"]) == `"Failure"`; failed && (!said || string(message) == `""`) {
		t.Errorf("the answer to %s is a failure without a message: %s", hook, answer)
	} else if failed {
		t.Attr("rule", "LH-02")
	}
	delete(rest, "message")
	if _, says := rest["retryAfterSeconds"]; says != (hook != "AfterControlPlaneInitialized") {
		t.Errorf("the answer to %s says when to call again: %t, want the opposite", hook, says)
	}
	delete(rest, "retryAfterSeconds")
	if len(rest) > 0 {
		t.Errorf("the answer to %s has the additional fields %s", hook, rest)
	}
}

func checkClusterInRequest(t *testing.T, hook, name string, text json.RawMessage) {
	t.Helper()
	var cluster clusterv1.Cluster
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&cluster); err != nil {
		t.Errorf("the Cluster in the request of %s: %v\n%s", hook, err, text)
		return
	}
	status, err := json.Marshal(cluster.Status)
	if err != nil || cluster.Name != name || cluster.APIVersion != clusterv1.GroupVersion.String() ||
		cluster.Kind != "Cluster" || cluster.UID == "" ||
		!cluster.Spec.Topology.IsDefined() || len(cluster.ManagedFields) > 0 || string(status) != "{}" {
		t.Errorf("the Cluster in the request of %s is incomplete, or has a status: %s (%v)", hook, text, err)
	}
}

// moments returns, in order, the hooks for which these extensions were called for a cluster. Consecutive calls of the
// same hook count as one. The last answer of each extension to each hook must have let the cluster through.
func moments(t *testing.T, cluster string, extensions ...string) []string {
	t.Helper()
	var order []string
	last := map[string]string{}
	for _, c := range decode[struct {
		Calls []struct{ Hook, Extension, Answer, Error string }
	}](t, "hook", "timeline", cluster).Calls {
		name := c.Hook[strings.LastIndex(c.Hook, "/")+1:]
		if _, ok := lifecycle[name]; !ok || !slices.Contains(extensions, c.Extension) {
			continue
		}
		if len(order) == 0 || order[len(order)-1] != name {
			order = append(order, name)
		}
		last[c.Extension+" at "+name] = c.Answer
	}
	for what, answer := range last {
		if answer != "Success" {
			t.Errorf("the last answer of %s was %s, want Success", what, answer)
		}
	}
	return order
}
