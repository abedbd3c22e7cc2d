package addon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/finding"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Name is the name of the part.
const Name = "add-ons"

// Reasons of the part's findings.
const (
	// ReasonApplied means that the workload cluster has all add-ons.
	ReasonApplied = "AddOnsApplied"
	// ReasonNotApplied means that add-ons could not be applied.
	ReasonNotApplied = "AddOnsNotApplied"
	// ReasonStay means that the namespace has no add-ons any more, but what was applied stays.
	ReasonStay = "AddOnsStay"
	// ReasonDrift means that objects differ from what was applied.
	ReasonDrift = "AddOnDrift"
	// ReasonNotCompared means that objects could not be compared with what was applied.
	ReasonNotCompared = "AddOnsNotCompared"
)

// named is how many objects a message names.
const named = 5

// Options configure the part.
type Options struct {
	// Reader reads ConfigMaps with add-ons and Secrets with kubeconfigs. Required.
	Reader client.Reader
	// Scheme holds the types to read and write in workload clusters. Required.
	Scheme *runtime.Scheme
	// Events creates Events for Clusters. Default: none are created.
	Events client.Writer
	// Log receives a line for each Event that cannot be created. Required.
	Log *slog.Logger
	// Metrics registers the drift metric. Default: it is not registered.
	Metrics prometheus.Registerer
	// Now returns the time. Required.
	Now func() time.Time
}

// addOns applies add-ons to workload clusters.
type addOns struct {
	reader   client.Reader
	scheme   *runtime.Scheme
	announce announcer
	drift    *prometheus.CounterVec
}

// New returns the part that applies add-ons to new Clusters, and again when their version changes.
func New(options Options) (part.Part, error) {
	drift, err := newDriftMetric(options.Metrics)
	if err != nil {
		return part.Part{}, err
	}
	a := &addOns{
		reader: options.Reader, scheme: options.Scheme, drift: drift,
		announce: announcer{writer: options.Events, log: options.Log, now: options.Now},
	}
	slow := server.Timeout(workload.HookTimeout)
	return part.Part{Name: Name, Handlers: []part.Handler{
		part.Handle(hook.AfterControlPlaneInitialized, "add-ons-create", a.afterControlPlaneInitialized, slow),
		part.Handle(hook.BeforeClusterUpgrade, "add-ons-before-upgrade", a.beforeClusterUpgrade, slow,
			server.IgnoreFailures()),
		part.Handle(hook.AfterControlPlaneUpgrade, "add-ons-control-plane", a.afterControlPlaneUpgrade, slow),
		part.Handle(hook.AfterClusterUpgrade, "add-ons-upgrade", a.afterClusterUpgrade, slow),
	}}, nil
}

func newDriftMetric(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	drift := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_extension_add_on_drift_total",
		Help: "Number of objects of add-ons that differed from what had been applied, by what had happened to the object.",
	}, []string{"what"})
	if registry == nil {
		return drift, nil
	}
	if err := registry.Register(drift); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return drift, nil
}

func (a *addOns) afterControlPlaneInitialized(
	ctx context.Context, _ setting.Values, request *runtimehooksv1.AfterControlPlaneInitializedRequest,
) (answer part.Answer, err error) {
	objects, _, err := Wanted(ctx, a.reader, &request.Cluster, request.Cluster.Spec.Topology.Version)
	if err != nil || len(objects) == 0 {
		return answer, err // a new cluster has nothing to remove
	}
	found, err := a.apply(ctx, &request.Cluster, objects)
	return part.Pass(found), err
}

// beforeClusterUpgrade reports drift without changing anything, so that whoever upgrades knows that the cluster differs
// from its add-ons. It blocks the upgrade only for unreadable add-ons, which would otherwise block the workers after
// the control plane has its new version.
func (a *addOns) beforeClusterUpgrade(
	ctx context.Context, _ setting.Values, request *runtimehooksv1.BeforeClusterUpgradeRequest,
) (answer part.Answer, err error) {
	if _, _, err := Wanted(ctx, a.reader, &request.Cluster, request.ToKubernetesVersion); err != nil {
		return answer, err
	}
	objects, _, err := Wanted(ctx, a.reader, &request.Cluster, request.FromKubernetesVersion)
	if err != nil || len(objects) == 0 {
		return answer, err
	}
	drift, err := a.inspect(ctx, &request.Cluster, objects)
	switch {
	case err != nil:
		message := "add-ons could not be compared: " + err.Error()
		return part.Pass(finding.Finding{Reason: ReasonNotCompared, Message: message}), nil
	case len(drift) > 0:
		text := a.tell(ctx, &request.Cluster, drift, "changed since they were applied", a.announce.once)
		return part.Pass(finding.Finding{Reason: ReasonDrift, Message: "add-ons: " + text}), nil
	}
	return answer, nil
}

func (a *addOns) inspect(ctx context.Context, cluster *clusterv1.Cluster, objects []Object) ([]Drift, error) {
	there, err := workload.Connect(ctx, a.reader, client.ObjectKeyFromObject(cluster), a.scheme)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	return Inspect(ctx, there, objects)
}

func (a *addOns) afterControlPlaneUpgrade(
	ctx context.Context, _ setting.Values, request *runtimehooksv1.AfterControlPlaneUpgradeRequest,
) (part.Answer, error) {
	return a.bring(ctx, &request.Cluster, request.KubernetesVersion)
}

func (a *addOns) afterClusterUpgrade(
	ctx context.Context, _ setting.Values, request *runtimehooksv1.AfterClusterUpgradeRequest,
) (part.Answer, error) {
	return a.bring(ctx, &request.Cluster, request.KubernetesVersion)
}

// bring applies the add-ons for a version and waits if the workload cluster cannot take them yet. If the namespace has
// no add-ons at all, it removes nothing: a move of the Cluster probably left them behind, and the cluster is not meant
// to lose its network.
func (a *addOns) bring(
	ctx context.Context, cluster *clusterv1.Cluster, version string,
) (answer part.Answer, err error) {
	objects, any, err := Wanted(ctx, a.reader, cluster, version)
	if err != nil {
		return answer, err
	}
	var found finding.Finding
	if any {
		found, err = a.apply(ctx, cluster, objects)
	} else {
		found, err = a.left(ctx, cluster)
	}
	if err != nil {
		found = finding.Finding{Reason: ReasonNotApplied, Message: "add-ons: " + err.Error()}
		return part.Hold(workload.HookRetry, found), nil
	}
	return part.Pass(found), nil
}

// left reports what was applied to a cluster whose namespace has no add-ons.
func (a *addOns) left(ctx context.Context, cluster *clusterv1.Cluster) (found finding.Finding, err error) {
	there, err := workload.Connect(ctx, a.reader, client.ObjectKeyFromObject(cluster), a.scheme)
	if errors.Is(err, workload.ErrNoKubeconfig) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	defer there.Close()
	_, applied, err := Outstanding(ctx, there, nil)
	if err != nil || len(applied) == 0 {
		return found, err
	}
	return finding.Finding{Reason: ReasonStay,
		Message: fmt.Sprintf("add-ons: no ConfigMap of the namespace has label %s, "+
			"so what was applied stays: %s (an empty add-on removes it)", Label, names(applied))}, nil
}

// apply applies the objects to the workload cluster and reports what it did.
func (a *addOns) apply(
	ctx context.Context, cluster *clusterv1.Cluster, objects []Object,
) (found finding.Finding, err error) {
	there, err := workload.Connect(ctx, a.reader, client.ObjectKeyFromObject(cluster), a.scheme)
	if errors.Is(err, workload.ErrNoKubeconfig) && len(objects) == 0 {
		return found, nil // nothing to apply, and nothing was ever applied
	}
	if err != nil {
		return found, err
	}
	defer there.Close()
	result, err := Apply(ctx, there, objects)
	var parts []string
	if result.Applied > 0 {
		parts = append(parts, fmt.Sprintf("%d applied", result.Applied))
	}
	if len(result.Removed) > 0 {
		parts = append(parts, fmt.Sprintf("%d removed", len(result.Removed)))
	}
	if len(result.Left) > 0 {
		parts = append(parts, "no longer wanted but left: "+names(result.Left))
	}
	if len(result.Drift) > 0 {
		const how = "changed since they were applied, and corrected"
		parts = append(parts, a.tell(ctx, cluster, result.Drift, how, a.announce.again))
	}
	if result.Unseen > 0 {
		parts = append(parts, fmt.Sprintf("%d not compared, because time ran out", result.Unseen))
	}
	if err != nil {
		return found, err
	}
	if len(parts) == 0 {
		return found, nil
	}
	return finding.Finding{Reason: ReasonApplied, Message: "add-ons: " + strings.Join(parts, ", ")}, nil
}

// tell reports drift as an Event of the Cluster, in the metric if the Event is new, and as text for the message.
func (a *addOns) tell(
	ctx context.Context, cluster *clusterv1.Cluster, drift []Drift, how string,
	announce func(context.Context, *clusterv1.Cluster, finding.Finding) (isNew bool),
) string {
	var refs []Ref
	for _, d := range drift {
		refs = append(refs, d.Ref)
	}
	text := fmt.Sprintf("%d %s: %s", len(drift), how, names(refs))
	if announce(ctx, cluster, finding.Finding{Reason: ReasonDrift, Message: "Objects of add-ons: " + text}) {
		for _, d := range drift {
			a.drift.WithLabelValues(d.What).Inc()
		}
	}
	return text
}

// names lists the first few names.
func names[T fmt.Stringer](all []T) string {
	var texts []string
	for _, one := range all[:min(named, len(all))] {
		texts = append(texts, one.String())
	}
	if more := len(all) - named; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}
