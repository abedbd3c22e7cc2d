package plan_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/extension/part/parttest"
	"github.com/capstan-dev/capstan/extension/plan"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/hooktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// offers makes a host of the namespace offer versions.
func offers(w *parttest.World, host int, versions string, change func(*infrav1.CapstanHost)) {
	w.Hosts[host].Status.KubernetesVersions = strings.Fields(versions)
	if change != nil {
		change(&w.Hosts[host])
	}
}

func texts(steps []runtimehooksv1.UpgradeStep) string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Version)
	}
	return strings.Join(all, " ")
}

// A plan uses the versions offered by hosts that the Cluster has or may claim, or the versions that the settings list.
func TestPlans(t *testing.T) {
	for name, c := range map[string]struct {
		change                        func(*parttest.World)
		settings                      map[string]string
		label                         string
		from, to                      string
		wantControlPlane, wantWorkers string
		fails                         string
	}{
		"one minor": {from: "v1.35.4", to: "v1.36.3", wantControlPlane: "v1.36.3", wantWorkers: "v1.36.3"},
		"three minors, with the highest version of each": {
			from: "v1.33.1", to: "v1.36.3", wantControlPlane: "v1.34.8 v1.35.4 v1.36.3", wantWorkers: "v1.36.3",
		},
		"four minors, so workers are upgraded twice": {
			from: "v1.32.0", to: "v1.36.3", wantControlPlane: "v1.33.1 v1.34.8 v1.35.4 v1.36.3", wantWorkers: "v1.35.4 v1.36.3",
		},
		"a host that the Cluster itself claims counts": {
			change: func(w *parttest.World) {
				offers(w, 1, "v1.34.8 v1.34.9", func(h *infrav1.CapstanHost) { h.Spec.Claim = &infrav1.HostClaim{Cluster: "blue"} })
			},
			from: "v1.33.1", to: "v1.35.4", wantControlPlane: "v1.34.9 v1.35.4", wantWorkers: "v1.35.4",
		},
		"a host that another Cluster claims does not count": {
			change: func(w *parttest.World) {
				offers(w, 1, "v1.34.9", func(h *infrav1.CapstanHost) { h.Spec.Claim = &infrav1.HostClaim{Cluster: "red"} })
			},
			from: "v1.33.1", to: "v1.35.4", fails: "no version v1.34 is available",
		},
		"a host in quarantine does not count": {
			change: func(w *parttest.World) {
				offers(w, 1, "v1.34.9", func(h *infrav1.CapstanHost) { h.Status.Phase = infrav1.HostQuarantined })
			},
			from: "v1.33.1", to: "v1.35.4", fails: "no version v1.34 is available",
		},
		"an unschedulable host does not count": {
			change: func(w *parttest.World) {
				offers(w, 1, "v1.34.9", func(h *infrav1.CapstanHost) { h.Spec.Unschedulable = true })
			},
			from: "v1.33.1", to: "v1.35.4", fails: "no version v1.34 is available",
		},
		"an invalid version is ignored": {
			change: func(w *parttest.World) { offers(w, 1, "nonsense v1.34.8", nil) },
			from:   "v1.33.1", to: "v1.35.4", wantControlPlane: "v1.34.8 v1.35.4", wantWorkers: "v1.35.4",
		},
		"the settings list versions": {
			settings: map[string]string{"upgrade-plan.versions": "v1.34.0, v1.35.0,v1.36.3"},
			from:     "v1.33.1", to: "v1.36.3", wantControlPlane: "v1.34.0 v1.35.0 v1.36.3", wantWorkers: "v1.36.3",
		},
		"the settings list an invalid version": {
			settings: map[string]string{"upgrade-plan.versions": "1.34"}, from: "v1.33.1", to: "v1.36.3",
			fails: "upgrade-plan.versions",
		},
		"a target that no host offers": {
			from: "v1.35.4", to: "v1.36.9", fails: "planning the upgrade to v1.36.9: version v1.36.9 is not available",
		},
		"no host names a version": {
			change: func(w *parttest.World) { offers(w, 0, "", nil); offers(w, 1, "", nil) },
			from:   "v1.35.4", to: "v1.36.3",
			fails: "of 2 hosts in namespace default that the Cluster has or may claim, none names a version",
		},
		"hosts can't be listed": {
			change: func(w *parttest.World) { w.Fail["CapstanHost"] = errors.New("no rights") }, from: "v1.35.4", to: "v1.36.3",
			fails: "listing CapstanHosts",
		},
		"the label switches the part off": {
			label: "disabled", from: "v1.35.4", to: "v1.36.3", fails: "switched off for this Cluster",
		},
		"the settings switch the part off": {
			settings: map[string]string{"upgrade-plan.enabled": "false"}, from: "v1.35.4", to: "v1.36.3",
			fails: "switched off for this Cluster",
		},
		"the settings switch the part off, the label switches it on": {
			settings: map[string]string{"upgrade-plan.enabled": "false"}, label: "enabled", from: "v1.35.4", to: "v1.36.3",
			wantControlPlane: "v1.36.3", wantWorkers: "v1.36.3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := parttest.NewWorld(2)
			offers(w, 0, "v1.33.0 v1.33.1 v1.35.4 v1.36.3", nil)
			offers(w, 1, "v1.34.8 v1.35.0", nil)
			if c.change != nil {
				c.change(w)
			}
			cluster := parttest.NewCluster("blue", 1, 2)
			if c.label != "" {
				cluster.Labels = map[string]string{"extensions.capstan.dev/upgrade-plan": c.label}
			}
			e := parttest.Serve(t, c.settings, plan.New(w))
			response, err := hooktest.CallOne(
				t,
				e,
				hook.GenerateUpgradePlan,
				"upgrade-plan",
				&runtimehooksv1.GenerateUpgradePlanRequest{
					Cluster: cluster, FromControlPlaneKubernetesVersion: c.from, FromWorkersKubernetesVersion: c.from,
					ToKubernetesVersion: c.to,
				},
			)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got %+v, %v; want an error with %q", response, err, c.fails)
				}
				return
			}
			if err != nil || texts(response.ControlPlaneUpgrades) != c.wantControlPlane ||
				texts(response.WorkersUpgrades) != c.wantWorkers {
				t.Errorf("got %+v, %v; want %q and %q", response, err, c.wantControlPlane, c.wantWorkers)
			}
			t.Attr("rule", "UH-06")
		})
	}
}

// The part conforms to the contract if there is a plan.
func TestItConforms(t *testing.T) {
	w := parttest.NewWorld(1)
	offers(w, 0, "v1.35.4 v1.36.3", nil)
	parttest.Serve(t, nil, plan.New(w)).Conforms(t)
}
