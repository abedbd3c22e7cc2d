package extension

import (
	"context"
	"errors"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Values of the settings "<part>.on-failure".
const (
	hold = "hold"
	goOn = "go-on"
)

func onFailure(partName string) setting.Setting {
	return setting.Setting{
		Name: partName + ".on-failure", Default: hold, Allowed: hold + " or " + goOn, Check: setting.OneOf(hold, goOn),
		Does: "What happens when no backup can be taken: the Cluster waits while it is tried again, or goes on after three tries.",
	}
}

// backups holds upgrades and deletions until there is a backup.
type backups struct {
	runner  *backup.Runner
	windows keeper
}

func (b backups) beforeClusterUpgrade(ctx context.Context, settings setting.Values, request *runtimehooksv1.BeforeClusterUpgradeRequest, response *runtimehooksv1.BeforeClusterUpgradeResponse) (err error) {
	if err := b.holdForWindow(&request.Cluster, settings, request.ToKubernetesVersion); err != nil {
		return err
	}
	reason := backup.UpgradeReason(request.FromKubernetesVersion, request.ToKubernetesVersion)
	response.Message, err = b.ensure(ctx, BackupBeforeUpgrade, &request.Cluster, reason, settings)
	return err
}

func (b backups) beforeClusterDelete(ctx context.Context, settings setting.Values, request *runtimehooksv1.BeforeClusterDeleteRequest, response *runtimehooksv1.BeforeClusterDeleteResponse) (err error) {
	response.Message, err = b.ensure(ctx, BackupBeforeDelete, &request.Cluster, backup.ReasonDelete, settings)
	return err
}

// holdForWindow waits for the maintenance window, if there is one: the upgrade does too. A backup that is taken days before would be taken again and again, and
// those that are worth more would be removed for it.
func (b backups) holdForWindow(cluster *clusterv1.Cluster, settings setting.Values, version string) error {
	on, err := isActive(MaintenanceWindow, cluster, settings)
	if err != nil || !on {
		return err
	}
	_, err = b.windows.hold(cluster, settings, "the backup before the upgrade to "+version)
	return err
}

// ensure gives what to say if the Cluster may go on, else what to return. Where backups can't be kept, only Clusters wait that ask for one by their
// label: they were promised one.
func (b backups) ensure(ctx context.Context, partName string, cluster *clusterv1.Cluster, reason string, settings setting.Values) (message string, err error) {
	policy, err := backup.ReadPolicy(settings)
	if err != nil {
		return "", err
	}
	policy.GoOn = settings[partName+".on-failure"] == goOn
	message, err = b.runner.Ensure(ctx, cluster, reason, policy)
	if !errors.Is(err, backup.ErrNoPlace) {
		return message, err
	}
	if cluster.Labels[SwitchPrefix+partName] == enabled {
		return "", server.Wait(retryAfter, fmt.Sprintf("label %s asks for a backup, and %v", SwitchPrefix+partName, err))
	}
	return "no backup is taken: " + err.Error(), nil
}
