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

// fields are those of a hook's request beside apiVersion, kind, settings and cluster.
func fields(hook, from, to string) map[string]string {
	step := `[{"version":"` + to + `"}]`
	before := map[string]string{"fromKubernetesVersion": `"` + from + `"`, "toKubernetesVersion": `"` + to + `"`}
	after := map[string]string{"kubernetesVersion": `"` + to + `"`}
	switch hook { // an upgrade over one minor release has one step; what is left of it is in the lists
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

// checkRequests checks that each request which the extensions got has the fields of its hook and no others, and a Cluster that is complete but for its status.
func checkRequests(t *testing.T, a *actor, cluster, from, to string) {
	t.Helper()
	for _, extension := range []string{one, two, ignored} {
		for hook := range lifecycle {
			for _, c := range a.calls(extension, hook) {
				want := fields(hook, from, to)
				got := maps.Clone(c.Request)
				for name, value := range map[string]string{
					"apiVersion": `"hooks.runtime.cluster.x-k8s.io/v1alpha1"`, "kind": `"` + hook + `Request"`, "settings": `{"from":"test"}`,
				} {
					if string(got[name]) != value {
						t.Errorf("%s of %s is %s, want %s", name, hook, got[name], value)
					}
					delete(got, name)
				}
				checkClusterInRequest(t, hook, cluster, got["cluster"])
				delete(got, "cluster")
				if !maps.EqualFunc(got, want, func(is json.RawMessage, wanted string) bool { return string(is) == wanted }) {
					t.Errorf("the request of %s has beside what all have %s, want %v", hook, got, want)
				}
			}
		}
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
	if err != nil || cluster.Name != name || cluster.APIVersion != clusterv1.GroupVersion.String() || cluster.Kind != "Cluster" || cluster.UID == "" ||
		!cluster.Spec.Topology.IsDefined() || len(cluster.ManagedFields) > 0 || string(status) != "{}" {
		t.Errorf("the Cluster in the request of %s is %s (%v)", hook, text, err)
	}
}

// moments gives the hooks for which these extensions were called for a cluster, in order, a row of calls of the same hook as one. The last answer of each
// of them must have let the cluster through.
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
			t.Errorf("the last answer of %s was %s", what, answer)
		}
	}
	return order
}
