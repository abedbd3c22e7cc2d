package window

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/finding"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/hook"
)

// Name is the name of the part.
const Name = "maintenance-window"

const (
	// Annotation is the annotation with a Cluster's own maintenance windows, which replace those in the settings.
	Annotation = "extensions.capstan.dev/maintenance-windows"
	// windowsSetting is the setting with the windows of all Clusters that have none of their own.
	windowsSetting = Name + ".windows"
	// retryAfter is the longest time until the next call for a waiting Cluster, since windows may change.
	retryAfter = 10 * time.Minute
)

// New returns the part that holds back upgrades outside of maintenance windows. Cluster API calls the part before each
// step: before the whole upgrade, before the control plane is upgraded to each version, and before workers are upgraded
// to one. Cluster API does not call the part again for a step in progress, so that step continues when the window
// closes.
func New(now func() time.Time) part.Part {
	k := keeper{now: now}
	return part.Part{
		Name: Name,
		Settings: []setting.Setting{{
			Name: windowsSetting, Allowed: Allowed,
			Does: fmt.Sprintf("The windows in which upgrades may begin, for Clusters without the annotation `%s`. If the "+
				"setting is empty, upgrades may begin at any time.", Annotation),
			Check: func(value string) error {
				_, err := Parse(value)
				return err
			},
		}},
		Handlers: []part.Handler{
			part.Handle(hook.BeforeClusterUpgrade, "window-upgrade", k.beforeClusterUpgrade),
			part.Handle(hook.BeforeControlPlaneUpgrade, "window-control-plane", k.beforeControlPlaneUpgrade),
			part.Handle(hook.BeforeWorkersUpgrade, "window-workers", k.beforeWorkersUpgrade),
		},
	}
}

// keeper holds back upgrades.
type keeper struct {
	now func() time.Time
}

func (k keeper) beforeClusterUpgrade(
	_ context.Context, settings setting.Values, request *runtimehooksv1.BeforeClusterUpgradeRequest,
) (part.Answer, error) {
	return hold(&request.Cluster, settings, "the upgrade to "+request.ToKubernetesVersion, k.now())
}

func (k keeper) beforeControlPlaneUpgrade(
	_ context.Context, settings setting.Values, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest,
) (part.Answer, error) {
	return hold(&request.Cluster, settings, "the upgrade of the control plane to "+request.ToKubernetesVersion, k.now())
}

func (k keeper) beforeWorkersUpgrade(
	_ context.Context, settings setting.Values, request *runtimehooksv1.BeforeWorkersUpgradeRequest,
) (part.Answer, error) {
	return hold(&request.Cluster, settings, "the upgrade of workers to "+request.ToKubernetesVersion, k.now())
}

// Hold is for steps of other parts that wait for a Cluster's windows, as upgrades do. It returns the answer for such a
// step, which lets the step pass if this part is switched off.
func Hold(cluster *clusterv1.Cluster, settings setting.Values, step string, now time.Time) (part.Answer, error) {
	on, err := part.IsOn(Name, cluster, settings)
	if err != nil || !on {
		return part.Answer{}, err
	}
	return hold(cluster, settings, step, now)
}

// hold holds back a step outside of a Cluster's windows.
func hold(
	cluster *clusterv1.Cluster, settings setting.Values, step string, now time.Time,
) (answer part.Answer, err error) {
	windows, err := windowsOf(cluster, settings)
	if err != nil {
		return answer, err
	}
	decision := Decide(windows, now)
	found := decision.Finding()
	switch {
	case !decision.Open:
		found.Message = fmt.Sprintf("%s waits: %s", step, found.Message)
		return part.Hold(min(decision.Next.Sub(now), retryAfter), found), nil
	case decision.Until.IsZero():
		return part.Pass(finding.Finding{Reason: found.Reason}), nil // no windows, nothing to report
	}
	return part.Pass(found), nil
}

// windowsOf returns the windows of a Cluster: its own, else those in the settings.
func windowsOf(cluster *clusterv1.Cluster, settings setting.Values) ([]Window, error) {
	own, given := cluster.Annotations[Annotation]
	if !given {
		return Parse(settings[windowsSetting])
	}
	windows, err := Parse(own)
	if err == nil && len(windows) == 0 {
		err = fmt.Errorf("it has no window: remove the annotation, or disable windows with label %s", part.Label(Name))
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s of the Cluster must be %s: %w", Annotation, Allowed, err)
	}
	return windows, nil
}
