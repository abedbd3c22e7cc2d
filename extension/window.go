package extension

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/window"
	"github.com/capstan-dev/capstan/runtime/server"
)

const (
	// WindowsAnnotation on a Cluster has its maintenance windows, in place of those of the settings; see package window for how they are written.
	WindowsAnnotation = "extensions.capstan.dev/maintenance-windows"
	// windowsSetting has the windows of all Clusters that don't have their own.
	windowsSetting = MaintenanceWindow + ".windows"
	// windowRetry bounds how long a Cluster waits until it is asked about again: windows may be changed meanwhile.
	windowRetry = 10 * time.Minute
)

func windowSettings() []setting.Setting {
	return []setting.Setting{{
		Name: windowsSetting, Allowed: window.Allowed,
		Does: fmt.Sprintf("When upgrades may begin, if the Cluster has no annotation `%s`. Empty: at any time.", WindowsAnnotation),
		Check: func(value string) error {
			_, err := window.Parse(value)
			return err
		},
	}}
}

// keeper holds upgrades outside of maintenance windows. It is asked before each step: before the upgrade, before each version of the control plane,
// before workers take one. A step that has begun is not asked about again, so it goes on when the window closes.
type keeper struct {
	now func() time.Time
}

func (k keeper) beforeClusterUpgrade(_ context.Context, settings setting.Values, request *runtimehooksv1.BeforeClusterUpgradeRequest, response *runtimehooksv1.BeforeClusterUpgradeResponse) error {
	message, err := k.hold(&request.Cluster, settings, "the upgrade to "+request.ToKubernetesVersion)
	response.Message = message
	return err
}

func (k keeper) beforeControlPlaneUpgrade(_ context.Context, settings setting.Values, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest, response *runtimehooksv1.BeforeControlPlaneUpgradeResponse) error {
	message, err := k.hold(&request.Cluster, settings, "the upgrade of the control plane to "+request.ToKubernetesVersion)
	response.Message = message
	return err
}

func (k keeper) beforeWorkersUpgrade(_ context.Context, settings setting.Values, request *runtimehooksv1.BeforeWorkersUpgradeRequest, response *runtimehooksv1.BeforeWorkersUpgradeResponse) error {
	message, err := k.hold(&request.Cluster, settings, "the upgrade of workers to "+request.ToKubernetesVersion)
	response.Message = message
	return err
}

// hold gives what to say if the step may begin, else what to return.
func (k keeper) hold(cluster *clusterv1.Cluster, settings setting.Values, step string) (message string, err error) {
	windows, err := window.Parse(settings[windowsSetting])
	if own, given := cluster.Annotations[WindowsAnnotation]; given {
		if windows, err = window.Parse(own); err == nil && len(windows) == 0 {
			err = fmt.Errorf("it has no window: remove it, or switch this off with label %s", SwitchPrefix+MaintenanceWindow)
		}
		if err != nil {
			return "", fmt.Errorf("annotation %s of the Cluster must be %s: %w", WindowsAnnotation, window.Allowed, err)
		}
	} else if err != nil {
		return "", err
	}
	now := k.now()
	decision := window.Decide(windows, now)
	if !decision.Open {
		return "", server.Wait(min(decision.Next.Sub(now), windowRetry), fmt.Sprintf("%s waits: %s", step, decision))
	}
	if decision.Until.IsZero() {
		return "", nil // nobody asked for windows
	}
	return decision.String(), nil
}
