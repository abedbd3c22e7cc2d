package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/templates"
	"github.com/capstan-dev/capstan/test/long"
)

// machineState is what must not change when a Machine is updated in place, and what shows that it was updated.
type machineState struct {
	uid, host    string // must not change
	upToDate     string
	updating     string // message of condition Updating
	controlPlane bool
}

type machineList struct {
	Items []struct {
		Metadata struct {
			Name, UID, DeletionTimestamp string
			Labels, Annotations          map[string]string
		}
		Spec   struct{ ProviderID string }
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
}

func machineStates(t *testing.T, cluster string) map[string]machineState {
	t.Helper()
	states := map[string]machineState{}
	for _, m := range decode[machineList](t, "kubectl", "get", "machines", "-l",
		"cluster.x-k8s.io/cluster-name="+cluster).Items {
		_, controlPlane := m.Metadata.Labels["cluster.x-k8s.io/control-plane"]
		s := machineState{uid: m.Metadata.UID, host: m.Spec.ProviderID, controlPlane: controlPlane}
		for _, c := range m.Status.Conditions {
			switch c.Type {
			case "UpToDate":
				s.upToDate = c.Status
			case "Updating":
				s.updating = c.Message
			}
		}
		if _, updates := m.Metadata.Annotations[clusterv1.UpdateInProgressAnnotation]; updates ||
			m.Metadata.DeletionTimestamp != "" {
			s.upToDate = "False"
		}
		states[m.Metadata.Name] = s
	}
	return states
}

// inPlaceClass returns a copy of the local ClusterClass with other names. Its rollouts create no additional Machine.
// Generations differ in the names of machine templates and in the additions to the bootstrap configurations of control
// planes and workers.
func inPlaceClass(generation int, controlPlane, workers string) string {
	text := strings.NewReplacer(
		"capstan-local-control-plane", fmt.Sprintf("in-place-control-plane-%d", generation),
		"capstan-local-worker", fmt.Sprintf("in-place-worker-%d", generation),
		"capstan-local", "in-place",
		"maxSurge: 1", "maxSurge: 0",
		"      - class: default-worker\n",
		"      - class: default-worker\n        rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, "+
			"maxUnavailable: 1}}}\n",
		"      kubeadmConfigSpec:\n", "      kubeadmConfigSpec:\n        "+controlPlane+"\n",
		"    spec:\n      joinConfiguration:\n", "    spec:\n      "+workers+"\n      joinConfiguration:\n",
	).Replace(string(templates.Local))
	return text
}

func motd(content string) string { return "files: [{path: /etc/motd, content: " + content + "}]" }

// TestInPlaceUpdates: an extension accepts a change of files, so Cluster API's reconcilers update control planes and
// workers in place: the same Machines on the same hosts. Changes that the extension declines replace Machines, as usual
// (UH-07).
func TestInPlaceUpdates(t *testing.T) {
	long.Need(t)
	const name = "in-place"
	dir := register(t)
	apply(t, inPlaceClass(1, motd("first"), motd("first")))
	t.Cleanup(func() {
		for _, line := range [][]string{{"cluster", "delete", name}, {"kubectl", "delete", "clusterclass", "in-place"}} {
			if out, err := command(context.Background(), line...).CombinedOutput(); err != nil {
				t.Errorf("capstan %s: %v\n%s", strings.Join(line, " "), err, out)
			}
		}
	})
	must(t, "cluster", "create", name, "--class", "in-place", "--control-plane", "3", "--workers", "1")
	before := machineStates(t, name)
	if calls := callsIn(t, dir); len(calls) != 0 {
		t.Errorf("without a change there were calls: %+v", calls)
	}

	apply(t, inPlaceClass(2, motd("second"), motd("second")))
	eventually(t, "a Machine says that it is being updated, and how far the update is", func() error {
		for _, s := range machineStates(t, name) {
			if strings.Contains(s.updating, "In-place update in progress") && strings.Contains(s.updating, "writing files") {
				return nil
			}
		}
		return errors.New("no Machine says so")
	})
	if err := os.WriteFile(filepath.Join(dir, goFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	updated := func() error {
		files := must(t, "kubectl", "get", "kubeadmconfigs", "-l", "cluster.x-k8s.io/cluster-name="+name, "-o",
			"jsonpath={.items[*].spec.files[0].content}")
		if got := strings.Fields(files); len(got) != 4 || slices.Contains(got, "first") {
			return fmt.Errorf("files are %q", files)
		}
		for machine, s := range machineStates(t, name) {
			if s.upToDate != "True" {
				return fmt.Errorf("%s is not up to date: %+v", machine, s)
			}
		}
		return nil
	}
	eventually(t, "all Machines are updated", updated)
	after := machineStates(t, name)
	for machine, was := range before {
		if is, ok := after[machine]; !ok || is.uid != was.uid || is.host != was.host {
			t.Errorf("%s was %+v and is %+v", machine, was, is)
		}
	}
	if len(after) != len(before) || len(before) != 4 {
		t.Errorf("there were %d Machines, and now there are %d, want 4", len(before), len(after))
	}
	t.Attr("rule", "UH-07")
	checkInPlaceCalls(t, callsIn(t, dir), before)
	readyNodes(t, name)

	seen := len(callsIn(t, dir))
	apply(t, inPlaceClass(3, motd("second"), motd("second")+"\n      verbosity: 3"))
	eventually(t, "the worker is replaced", func() error {
		is := machineStates(t, name)
		for machine, was := range after {
			if now, ok := is[machine]; ok != was.controlPlane || ok && now.uid != was.uid {
				return fmt.Errorf("%s was %+v and is %+v", machine, was, now)
			}
		}
		for machine, s := range is {
			if s.upToDate != "True" {
				return fmt.Errorf("%s is not up to date: %+v", machine, s)
			}
		}
		return nil
	})
	asked := false
	for _, c := range callsIn(t, dir)[seen:] {
		asked = asked || c.Hook == "canupdatemachineset" &&
			strings.Contains(string(c.Request.Desired.BootstrapConfigTemplate), `"verbosity":3`)
		if c.Hook == "updatemachine" {
			t.Errorf("a Machine was updated in place although the extension declined: %+v", c)
		}
	}
	if !asked {
		t.Error("the extension was not asked about the second change")
	}
}

// checkInPlaceCalls checks the extension's calls for the first change, and their order.
func checkInPlaceCalls(t *testing.T, calls []hookCall, machines map[string]machineState) {
	t.Helper()
	asked, updates := map[string]bool{}, map[string]int{}
	for _, c := range calls {
		current, desired := string(c.Request.Current.BootstrapConfig)+string(c.Request.Current.BootstrapConfigTemplate),
			string(c.Request.Desired.BootstrapConfig)+string(c.Request.Desired.BootstrapConfigTemplate)
		if !strings.Contains(desired, `"content":"second"`) {
			t.Errorf("%s of %s lacks the second content in its desired state: %s", c.Hook, c.about(), desired)
		}
		switch c.Hook {
		case "canupdatemachine", "canupdatemachineset":
			if !strings.Contains(current, `"content":"first"`) {
				t.Errorf("%s of %s lacks the first content in its current state: %s", c.Hook, c.about(), current)
			}
			asked[c.Hook+" "+c.about()] = true
		case "updatemachine":
			machine, ok := machines[c.about()]
			sets := slices.ContainsFunc(slices.Collect(maps.Keys(asked)),
				func(key string) bool { return strings.HasPrefix(key, "canupdatemachineset ") })
			if !ok || machine.controlPlane && !asked["canupdatemachine "+c.about()] || !machine.controlPlane && !sets {
				t.Errorf("%s is updated, but the extension was not asked before: %v", c.about(), asked)
			}
			updates[c.about()]++
		default:
			t.Errorf("there was an unexpected call of %s", c.Hook)
		}
	}
	for name := range machines {
		if updates[name] < 2 { // one call begins the update, and another one sees that it is done
			t.Errorf("there were %d calls to update %s, want at least 2", updates[name], name)
		}
	}
}
