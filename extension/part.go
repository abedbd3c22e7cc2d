package extension

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/backup"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// The parts of the extension: each does one thing, and is switched on and off by itself.
const (
	// Capacity holds back what the inventory has no hosts for.
	Capacity = "capacity"
	// MaintenanceWindow holds back upgrades outside of given times.
	MaintenanceWindow = "maintenance-window"
	// AddOns brings manifests into workload clusters.
	AddOns = "add-ons"
	// Verification holds the next step of an upgrade while what has its version is not right.
	Verification = "verification"
	// BackupBeforeUpgrade takes a backup of a cluster's etcd before each upgrade.
	BackupBeforeUpgrade = "backup-before-upgrade"
	// BackupBeforeDelete takes one before a cluster is deleted. It is off unless somebody asks for it: most clusters that are deleted are not missed.
	BackupBeforeDelete = "backup-before-delete"
)

// SwitchPrefix is followed by the name of a part in the label that switches it for one Cluster: enabled or disabled. The label wins over the
// setting "<part>.enabled".
const SwitchPrefix = "extensions.capstan.dev/"

// Values of a switch label.
const (
	enabled  = "enabled"
	disabled = "disabled"
)

// part is one part of the extension.
type part struct {
	name string
	// off means that it is off unless a label or the settings say otherwise.
	off bool
	// settings besides "<name>.enabled".
	settings []setting.Setting
}

// parts lists all of them.
func parts() []part {
	return []part{
		{name: Capacity},
		{name: MaintenanceWindow, settings: windowSettings()},
		{name: AddOns},
		{name: Verification},
		{name: BackupBeforeUpgrade, settings: append(backup.Settings(), onFailure(BackupBeforeUpgrade))},
		{name: BackupBeforeDelete, off: true, settings: []setting.Setting{onFailure(BackupBeforeDelete)}},
	}
}

// Settings gives all settings that the ExtensionConfig may have.
func Settings() (*setting.Table, error) {
	var all []setting.Setting
	for _, p := range parts() {
		all = append(all, setting.Setting{
			Name: p.enabledSetting(), Default: strconv.FormatBool(!p.off), Allowed: "true or false", Check: setting.OneOf("true", "false"),
			Does: fmt.Sprintf("Whether %s is on for Clusters without the label `%s`.", p.name, SwitchPrefix+p.name),
		})
		all = append(all, p.settings...)
	}
	table, err := setting.NewTable(all...)
	if err != nil {
		return nil, fmt.Errorf("joining the settings of all parts: %w", err)
	}
	return table, nil
}

func (p part) enabledSetting() string { return p.name + ".enabled" }

// isOn tells whether the part works for a Cluster. decided is false if the Cluster does not say and the settings decide.
func (p part) isOn(cluster *clusterv1.Cluster) (on, decided bool, err error) {
	label := SwitchPrefix + p.name
	switch value, given := cluster.Labels[label]; {
	case !given:
		return true, false, nil
	case value == enabled:
		return true, true, nil
	case value == disabled:
		return false, true, nil
	}
	return false, false, fmt.Errorf("label %s of the Cluster must be %s or %s", label, enabled, disabled)
}

// isActive tells whether a part works for a Cluster, by its label or else by the settings.
func isActive(name string, cluster *clusterv1.Cluster, settings setting.Values) (bool, error) {
	p := part{name: name}
	on, decided, err := p.isOn(cluster)
	if err != nil || decided {
		return on, err
	}
	return settings[p.enabledSetting()] == "true", nil
}

// answerMargin is how much earlier than its caller's patience a part has to be done: it then still says what it waits for. An answer that comes too late is none, and
// after a few of them callers leave the whole extension alone for a while, also for clusters that answer.
const answerMargin = 2 * time.Second

// settled is a function of a part: it gets checked settings besides the request.
type settled[Req, Resp any] func(ctx context.Context, settings setting.Values, request *Req, response *Resp) error

// handlers makes the handlers of parts.
type handlers struct {
	settings *setting.Table
	parts    []part
}

// handle makes a handler of a part. It passes at once for Clusters that the part is switched off for: by their label, even if the settings are
// wrong, which is the way out if nobody may mend those; else by the settings.
func handle[Req, Resp any, PReq interface {
	*Req
	runtime.Object
	runtimehooksv1.RequestObject
}](h handlers, partName string, of hook.Hook[Req, Resp], name string, function settled[Req, Resp], options ...server.Option) server.Handler {
	i := slices.IndexFunc(h.parts, func(p part) bool { return p.name == partName })
	if i < 0 {
		return server.Handle(of, name, nil) // which server.New reports
	}
	p := h.parts[i]
	return server.Handle(of, name, func(ctx context.Context, request *Req, response *Resp) error {
		cluster, err := clusterOf(PReq(request))
		if err != nil {
			return err
		}
		on, decided, err := p.isOn(cluster)
		if err != nil || !on {
			return err
		}
		settings, err := h.settings.Read(PReq(request).GetSettings())
		if err != nil {
			return err
		}
		if !decided && settings[p.enabledSetting()] != "true" {
			return nil
		}
		ctx, cancel := early(ctx)
		defer cancel()
		return function(ctx, settings, request, response)
	}, options...)
}

// early gives a context that ends [answerMargin] before the caller gives up, or when a tenth of what is left is left, whichever is later.
func early(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerMargin, time.Until(deadline)/10)))
}

// clusterOf gives the Cluster that a lifecycle hook is about.
func clusterOf(request runtime.Object) (*clusterv1.Cluster, error) {
	switch r := request.(type) {
	case *runtimehooksv1.BeforeClusterCreateRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterControlPlaneInitializedRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeClusterUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeControlPlaneUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterControlPlaneUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeWorkersUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterWorkersUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterClusterUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeClusterDeleteRequest:
		return &r.Cluster, nil
	}
	return nil, fmt.Errorf("a request of type %s is about no Cluster", strings.TrimPrefix(fmt.Sprintf("%T", request), "*"))
}

// unset adapts a function that has no settings.
func unset[Req, Resp any](function server.Func[Req, Resp]) settled[Req, Resp] {
	return func(ctx context.Context, _ setting.Values, request *Req, response *Resp) error {
		return function(ctx, request, response)
	}
}
