package upgradeplan_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
	"github.com/capstan-dev/capstan/runtime/sample"
	"github.com/capstan-dev/capstan/runtime/server"
	"github.com/capstan-dev/capstan/runtime/upgradeplan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var many = []string{"v1.36.3", "v1.30.2", "v1.31.9", "v1.31.10", "v1.32.0", "v1.33.1", "v1.34.4", "v1.35.0", "v1.35.4",
	"v1.35.9-rc.1", "v1.36.0"}

func TestCompute(t *testing.T) {
	for name, c := range map[string]struct {
		controlPlane, workers, target string
		wantControlPlane, wantWorkers string // versions separated by spaces
		fails                         string
	}{
		"the next minor": {
			controlPlane: "v1.35.4", workers: "v1.35.4", target: "v1.36.3", wantControlPlane: "v1.36.3", wantWorkers: "v1.36.3",
		},
		"a patch": {
			controlPlane: "v1.36.0", workers: "v1.36.0", target: "v1.36.3", wantControlPlane: "v1.36.3", wantWorkers: "v1.36.3",
		},
		"three minors, so workers are upgraded once": {
			controlPlane: "v1.33.1", workers: "v1.33.1", target: "v1.36.3", wantControlPlane: "v1.34.4 v1.35.4 v1.36.3",
			wantWorkers: "v1.36.3",
		},
		"four minors, so workers are upgraded twice": {
			controlPlane: "v1.32.0", workers: "v1.32.0", target: "v1.36.3", wantControlPlane: "v1.33.1 v1.34.4 v1.35.4 v1.36.3",
			wantWorkers: "v1.35.4 v1.36.3",
		},
		"workers that are behind are upgraded first": {
			controlPlane: "v1.34.4", workers: "v1.32.0", target: "v1.36.3", wantControlPlane: "v1.35.4 v1.36.3",
			wantWorkers: "v1.35.4 v1.36.3",
		},
		"workers at the limit are upgraded before anything else": {
			controlPlane: "v1.34.4", workers: "v1.31.9", target: "v1.36.3", wantControlPlane: "v1.35.4 v1.36.3",
			wantWorkers: "v1.34.4 v1.36.3",
		},
		"the highest patch counts by number": {
			controlPlane: "v1.30.2", workers: "", target: "v1.32.0", wantControlPlane: "v1.31.10 v1.32.0",
		},
		"no workers": {controlPlane: "v1.35.4", target: "v1.36.3", wantControlPlane: "v1.36.3"},
		"only the control plane has the target version": {
			controlPlane: "v1.36.3", workers: "v1.34.4", target: "v1.36.3", wantWorkers: "v1.36.3",
		},
		"both have the target version": {controlPlane: "v1.36.3", workers: "v1.36.3", target: "v1.36.3"},
		"a pre-release is a target": {
			controlPlane: "v1.34.4", workers: "v1.34.4", target: "v1.35.9-rc.1", wantControlPlane: "v1.35.9-rc.1",
			wantWorkers: "v1.35.9-rc.1",
		},
		"a target that is not available": {
			controlPlane: "v1.35.4", target: "v1.36.9", fails: "v1.36.9 is not available; these are: v1.36.3",
		},
		"a downgrade": {
			controlPlane: "v1.36.3", target: "v1.35.4", fails: "can't go back to v1.35.4",
		},
		"a minor is missing": {
			controlPlane: "v1.28.0", target: "v1.31.9", fails: "no version v1.29 is available",
		},
		"workers newer than the control plane": {
			controlPlane: "v1.34.4", workers: "v1.35.4", target: "v1.36.3", fails: "and not newer",
		},
		"workers too old": {
			controlPlane: "v1.36.0", workers: "v1.32.0", target: "v1.36.3", fails: "at most 3 minor versions older",
		},
		"a control plane without a version": {target: "v1.36.3", fails: "reading the version \"\" of the control plane"},
		"an invalid target":                 {controlPlane: "v1.35.4", target: "new", fails: "reading the version \"new\""},
		"workers with an invalid version": {
			controlPlane: "v1.35.4", workers: "x", target: "v1.36.3", fails: "of the workers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := upgradeplan.Compute(c.controlPlane, c.workers, c.target, many)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %+v, %v; want an error with %q", plan, err, c.fails)
				}
				return
			}
			if err != nil || strings.Join(plan.ControlPlane, " ") != c.wantControlPlane ||
				strings.Join(plan.Workers, " ") != c.wantWorkers {
				t.Errorf("got %+v, %v; want %q and %q", plan, err, c.wantControlPlane, c.wantWorkers)
			}
			t.Attr("rule", "UH-06")
		})
	}
	if _, err := upgradeplan.Compute("v1.33.1", "", "v1.36.3", append(slices.Clone(many), "old")); err == nil ||
		!strings.Contains(err.Error(), `"old" that is available`) {
		t.Errorf("error is %v", err)
	}
}

func TestGenerate(t *testing.T) {
	e := hooktest.Start(t, server.Handle(hook.GenerateUpgradePlan, "plan",
		upgradeplan.Generate(func(_ context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error) {
			if request.Cluster.Name != sample.Cluster().Name {
				return nil, errors.New("the store is down")
			}
			return many, nil
		})))
	request := &runtimehooksv1.GenerateUpgradePlanRequest{
		Cluster: *sample.Cluster(), FromControlPlaneKubernetesVersion: "v1.32.0", FromWorkersKubernetesVersion: "v1.32.0",
		ToKubernetesVersion: "v1.34.4",
	}
	response, err := hooktest.CallOne(t, e, hook.GenerateUpgradePlan, "plan", request)
	if err != nil || len(response.ControlPlaneUpgrades) != 2 || response.ControlPlaneUpgrades[0].Version != "v1.33.1" ||
		len(response.WorkersUpgrades) != 1 || response.WorkersUpgrades[0].Version != "v1.34.4" {
		t.Errorf("got %+v, %v", response, err)
	}
	request.ToKubernetesVersion = "v1.99.0"
	if _, err := hooktest.CallOne(t, e, hook.GenerateUpgradePlan, "plan", request); err == nil ||
		!strings.Contains(err.Error(), "v1.99.0 is not available") {
		t.Errorf("error is %v", err)
	}
	request.Cluster.Name = "other"
	if _, err := hooktest.CallOne(t, e, hook.GenerateUpgradePlan, "plan", request); err == nil ||
		!strings.Contains(err.Error(), "the store is down") {
		t.Errorf("error is %v", err)
	}
	e.Conforms(t)
	if upgradeplan.Generate(nil) != nil {
		t.Error("an invalid function was accepted")
	}
}
