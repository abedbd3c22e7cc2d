package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/finding"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/window"
	"github.com/capstan-dev/capstan/runtime/hook"
)

// Names of the parts.
const (
	// BeforeUpgrade takes a backup of a cluster's etcd before each upgrade.
	BeforeUpgrade = "backup-before-upgrade"
	// BeforeDelete takes a backup before a cluster is deleted. It is off by default, because most deleted clusters are
	// not missed.
	BeforeDelete = "backup-before-delete"
)

// Values of the settings "<part>.on-failure".
const (
	hold = "hold"
	goOn = "go-on"
)

// placeRetry is the time until the next call for a Cluster whose label requires a backup while there is nowhere to
// store one.
const placeRetry = 5 * time.Second

// parts holds back upgrades and deletions until there is a backup.
type parts struct {
	runner *runner
	now    func() time.Time
}

// New returns two parts with a common runner: [BeforeUpgrade] and [BeforeDelete].
func New(options Options) ([]part.Part, error) {
	runner, err := newRunner(options)
	if err != nil {
		return nil, err
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	p := parts{runner: runner, now: options.Now}
	return []part.Part{
		{
			Name: BeforeUpgrade, Settings: append(Settings(), onFailure(BeforeUpgrade)), Close: runner.close,
			Handlers: []part.Handler{part.Handle(hook.BeforeClusterUpgrade, "backup-upgrade", p.beforeClusterUpgrade)},
		},
		{
			Name: BeforeDelete, Off: true, Settings: []setting.Setting{onFailure(BeforeDelete)}, Close: runner.close,
			Handlers: []part.Handler{part.Handle(hook.BeforeClusterDelete, "backup-delete", p.beforeClusterDelete)},
		},
	}, nil
}

func onFailure(partName string) setting.Setting {
	return setting.Setting{
		Name: partName + ".on-failure", Default: hold, Allowed: hold + " or " + goOn, Check: setting.OneOf(hold, goOn),
		Does: "What happens if no backup can be taken. With `hold`, the Cluster waits for further attempts. With " +
			"`go-on`, it continues after three failed attempts.",
	}
}

// beforeClusterUpgrade first waits for the maintenance window, if any, as the upgrade itself does. Otherwise backups
// taken days before would be repeated and push out more valuable ones.
func (p parts) beforeClusterUpgrade(
	ctx context.Context, settings setting.Values, request *runtimehooksv1.BeforeClusterUpgradeRequest,
) (part.Answer, error) {
	step := "the backup before the upgrade to " + request.ToKubernetesVersion
	if answer, err := window.Hold(&request.Cluster, settings, step, p.now()); err != nil || answer.RetryAfter > 0 {
		return answer, err
	}
	reason := UpgradeReason(request.FromKubernetesVersion, request.ToKubernetesVersion)
	return p.ensure(ctx, BeforeUpgrade, &request.Cluster, reason, settings)
}

func (p parts) beforeClusterDelete(
	ctx context.Context, settings setting.Values, request *runtimehooksv1.BeforeClusterDeleteRequest,
) (part.Answer, error) {
	return p.ensure(ctx, BeforeDelete, &request.Cluster, ReasonDelete, settings)
}

// ensure holds back a Cluster until it has a backup. If there is nowhere to store backups, ensure holds back only
// Clusters whose label requires one.
func (p parts) ensure(
	ctx context.Context, name string, cluster *clusterv1.Cluster, reason string, settings setting.Values,
) (answer part.Answer, err error) {
	policy, err := ReadPolicy(settings)
	if err != nil {
		return answer, err
	}
	policy.GoOn = settings[name+".on-failure"] == goOn
	answer, err = p.runner.ensure(ctx, cluster, reason, policy)
	if !errors.Is(err, ErrNoPlace) {
		return answer, err
	}
	if label := part.Label(name); cluster.Labels[label] == part.Enabled {
		message := fmt.Sprintf("label %s asks for a backup, and %v", label, err)
		return part.Hold(placeRetry, finding.Finding{Reason: ReasonNoPlace, Message: message}), nil
	}
	return part.Pass(finding.Finding{Reason: ReasonNoPlace, Message: "no backup is taken: " + err.Error()}), nil
}
