package extension

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/runtime/server"
)

const (
	// workloadTimeout is how long callers wait for what works in a workload cluster.
	workloadTimeout = 30 * time.Second
	// workloadRetry is how soon a Cluster is asked about again that did not answer, or is not right.
	workloadRetry = 5 * time.Second
	// named bounds how many objects or nodes a message names.
	named = 5
)

// addOns brings add-ons into workload clusters.
type addOns struct {
	reader   client.Reader
	scheme   *runtime.Scheme
	announce announcer
	drift    *prometheus.CounterVec
}

func newDriftMetric(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	drift := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_extension_add_on_drift_total", Help: "Objects of add-ons that were not as they had been applied, by what had happened to them.",
	}, []string{"what"})
	if registry == nil {
		return drift, nil
	}
	if err := registry.Register(drift); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return drift, nil
}

func (a *addOns) afterControlPlaneInitialized(ctx context.Context, _ setting.Values, request *runtimehooksv1.AfterControlPlaneInitializedRequest, response *runtimehooksv1.AfterControlPlaneInitializedResponse) error {
	objects, _, err := a.choose(ctx, &request.Cluster, request.Cluster.Spec.Topology.Version)
	if err != nil || len(objects) == 0 {
		return err // a new cluster has nothing to remove
	}
	response.Message, err = a.apply(ctx, &request.Cluster, objects)
	return err
}

// beforeClusterUpgrade reports drift and changes nothing: who upgrades should know that the cluster is not what the add-ons say. Only add-ons that
// can't be read hold an upgrade: after the control plane has its new version they would hold the workers.
func (a *addOns) beforeClusterUpgrade(ctx context.Context, _ setting.Values, request *runtimehooksv1.BeforeClusterUpgradeRequest, response *runtimehooksv1.BeforeClusterUpgradeResponse) error {
	if _, _, err := a.choose(ctx, &request.Cluster, request.ToKubernetesVersion); err != nil {
		return err
	}
	objects, _, err := a.choose(ctx, &request.Cluster, request.FromKubernetesVersion)
	if err != nil || len(objects) == 0 {
		return err
	}
	drift, err := a.inspect(ctx, &request.Cluster, objects)
	switch {
	case err != nil:
		response.Message = "add-ons could not be compared: " + err.Error()
	case len(drift) > 0:
		response.Message = "add-ons: " + a.tell(ctx, &request.Cluster, drift, "changed since they were applied", a.announce.once)
	}
	return nil
}

func (a *addOns) inspect(ctx context.Context, cluster *clusterv1.Cluster, objects []addon.Object) ([]addon.Drift, error) {
	there, err := workload.Connect(ctx, a.reader, client.ObjectKeyFromObject(cluster), a.scheme)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	return addon.Inspect(ctx, there, objects)
}

func (a *addOns) afterControlPlaneUpgrade(ctx context.Context, _ setting.Values, request *runtimehooksv1.AfterControlPlaneUpgradeRequest, response *runtimehooksv1.AfterControlPlaneUpgradeResponse) (err error) {
	response.Message, err = a.bring(ctx, &request.Cluster, request.KubernetesVersion)
	return err
}

func (a *addOns) afterClusterUpgrade(ctx context.Context, _ setting.Values, request *runtimehooksv1.AfterClusterUpgradeRequest, response *runtimehooksv1.AfterClusterUpgradeResponse) (err error) {
	response.Message, err = a.bring(ctx, &request.Cluster, request.KubernetesVersion)
	return err
}

// bring applies the add-ons for a version, and waits if the workload cluster can't take them yet. In a namespace without any add-on nothing is removed: it is more
// likely that they did not come along when the Cluster was moved than that a cluster shall lose its network.
func (a *addOns) bring(ctx context.Context, cluster *clusterv1.Cluster, version string) (message string, err error) {
	objects, any, err := a.choose(ctx, cluster, version)
	if err != nil {
		return "", err
	}
	if any {
		message, err = a.apply(ctx, cluster, objects)
	} else {
		message, err = a.left(ctx, cluster)
	}
	if err != nil {
		return "", server.Wait(workloadRetry, "add-ons: "+err.Error())
	}
	return message, nil
}

// left names what was applied to a cluster whose namespace has no add-on.
func (a *addOns) left(ctx context.Context, cluster *clusterv1.Cluster) (message string, err error) {
	there, err := workload.Connect(ctx, a.reader, client.ObjectKeyFromObject(cluster), a.scheme)
	if errors.Is(err, workload.ErrNoKubeconfig) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer there.Close()
	_, applied, err := addon.Outstanding(ctx, there, nil)
	if err != nil || len(applied) == 0 {
		return "", err
	}
	return fmt.Sprintf("add-ons: no ConfigMap of the namespace has label %s, so what was applied stays: %s (an empty add-on has it removed)", addon.Label, names(applied)), nil
}

// choose gives the objects of all add-ons for a Cluster, and whether its namespace has any add-on.
func (a *addOns) choose(ctx context.Context, cluster *clusterv1.Cluster, version string) (objects []addon.Object, any bool, err error) {
	list := &corev1.ConfigMapList{}
	err = a.reader.List(ctx, list, client.InNamespace(cluster.Namespace), client.HasLabels{addon.Label}, client.Limit(addon.MaxSources))
	if err != nil {
		return nil, false, fmt.Errorf("listing ConfigMaps with label %s: %w", addon.Label, err)
	}
	if list.Continue != "" {
		return nil, false, fmt.Errorf("the namespace has more than %d ConfigMaps with label %s: add-ons are read from no more than that", addon.MaxSources, addon.Label)
	}
	if len(list.Items) == 0 {
		return nil, false, nil
	}
	if objects, err = addon.Choose(list.Items, cluster.Labels, version); err != nil {
		return nil, true, fmt.Errorf("reading add-ons: %w", err)
	}
	return objects, true, nil
}

// apply makes the workload cluster have the objects, and tells what it did.
func (a *addOns) apply(ctx context.Context, cluster *clusterv1.Cluster, objects []addon.Object) (message string, err error) {
	there, err := workload.Connect(ctx, a.reader, client.ObjectKeyFromObject(cluster), a.scheme)
	if errors.Is(err, workload.ErrNoKubeconfig) && len(objects) == 0 {
		return "", nil // nothing to bring, and nothing was ever brought
	}
	if err != nil {
		return "", err
	}
	defer there.Close()
	result, err := addon.Apply(ctx, there, objects)
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
		parts = append(parts, a.tell(ctx, cluster, result.Drift, "changed since they were applied, and put right", a.announce.again))
	}
	if result.Unseen > 0 {
		parts = append(parts, fmt.Sprintf("%d not compared, for the time was over", result.Unseen))
	}
	if err != nil {
		return "", err
	}
	if len(parts) == 0 {
		return "", nil
	}
	return "add-ons: " + strings.Join(parts, ", "), nil
}

// tell reports drift: as an Event of the Cluster, in the metric if the Event is a new one, and as text for the message.
func (a *addOns) tell(ctx context.Context, cluster *clusterv1.Cluster, drift []addon.Drift, how string, announce func(ctx context.Context, cluster *clusterv1.Cluster, reason, message string) (isNew bool)) string {
	var refs []addon.Ref
	for _, d := range drift {
		refs = append(refs, d.Ref)
	}
	text := fmt.Sprintf("%d %s: %s", len(drift), how, names(refs))
	if announce(ctx, cluster, "AddOnDrift", "Objects of add-ons were "+text) {
		for _, d := range drift {
			a.drift.WithLabelValues(d.What).Inc()
		}
	}
	return text
}

// names lists the first few.
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
