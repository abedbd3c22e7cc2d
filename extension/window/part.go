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

// Name of the part.
const Name = "maintenance-window"

const (
	// Annotation on a Cluster has its maintenance windows, in place of those of the settings.
	Annotation = "extensions.capstan.dev/maintenance-windows"
	// windowsSetting has the windows of all Clusters that don't have their own.
	windowsSetting = Name + ".windows"
	// retryAfter bounds how long a Cluster waits until it is asked about again: windows may be changed meanwhile.
	retryAfter = 10 * time.Minute
)

// New makes the part that holds upgrades outside of maintenance windows. It is asked before each step: before the
// upgrade, before each version of the control plane, before workers take one. A step that has begun is not asked about
// again, so it goes on when the window closes.
func New(now func() time.Time) part.Part {
	k := keeper{now: now}
	return part.Part{
		Name: Name,
		Settings: []setting.Setting{{
			Name: windowsSetting, Allowed: Allowed,
			Does: fmt.Sprintf("When upgrades may begin, if the Cluster has no annotation `%s`. Empty: at any time.", Annotation),
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

// keeper holds upgrades.
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

// Hold answers for a step of another part that has to wait for the windows of a Cluster as upgrades do. It passes where
// this part is off.
func Hold(cluster *clusterv1.Cluster, settings setting.Values, step string, now time.Time) (part.Answer, error) {
	on, err := part.IsOn(Name, cluster, settings)
	if err != nil || !on {
		return part.Answer{}, err
	}
	return hold(cluster, settings, step, now)
}

// hold holds a step outside of the windows of a Cluster.
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
		return part.Pass(finding.Finding{Reason: found.Reason}), nil // nobody asked for windows, so nothing is said
	}
	return part.Pass(found), nil
}

// windowsOf returns the windows of a Cluster: its own, or else those of the settings.
func windowsOf(cluster *clusterv1.Cluster, settings setting.Values) ([]Window, error) {
	own, given := cluster.Annotations[Annotation]
	if !given {
		return Parse(settings[windowsSetting])
	}
	windows, err := Parse(own)
	if err == nil && len(windows) == 0 {
		err = fmt.Errorf("it has no window: remove it, or switch this off with label %s", part.Label(Name))
	}
	if err != nil {
		return nil, fmt.Errorf("annotation %s of the Cluster must be %s: %w", Annotation, Allowed, err)
	}
	return windows, nil
}
