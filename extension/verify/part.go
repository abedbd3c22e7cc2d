package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/finding"
	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// Name is the name of the part.
const Name = "verification"

const (
	// defaultPatience is how long one call keeps checking before it answers that something is wrong. Most problems
	// disappear in a moment, and the caller would call again only seconds later.
	defaultPatience = 3 * time.Second
	// lookPause is the time between two checks.
	lookPause = 300 * time.Millisecond
	// named is how many findings a message names.
	named = 5
)

// Options configure the part.
type Options struct {
	// Reader reads Machines, Secrets with kubeconfigs and ConfigMaps with add-ons. Required.
	Reader client.Reader
	// Scheme holds the types to read in workload clusters. Required.
	Scheme *runtime.Scheme
	// Patience is how long one call keeps checking before it answers that something is wrong. Default: 3 seconds.
	Patience time.Duration
}

// verification checks a cluster after its version has changed.
type verification struct {
	reader   client.Reader
	scheme   *runtime.Scheme
	patience time.Duration
}

// New returns the part that holds back workers until the control plane is verified after its upgrade, and the next
// upgrade until the whole cluster is verified.
func New(options Options) part.Part {
	v := &verification{
		reader: options.Reader, scheme: options.Scheme, patience: cmp.Or(options.Patience, defaultPatience),
	}
	slow := server.Timeout(workload.HookTimeout)
	return part.Part{Name: Name, Handlers: []part.Handler{
		part.Handle(hook.AfterControlPlaneUpgrade, "verification-control-plane", v.afterControlPlaneUpgrade, slow),
		part.Handle(hook.AfterClusterUpgrade, "verification-upgrade", v.afterClusterUpgrade, slow),
	}}
}

func (v *verification) afterControlPlaneUpgrade(
	ctx context.Context, settings setting.Values, request *runtimehooksv1.AfterControlPlaneUpgradeRequest,
) (part.Answer, error) {
	return v.verify(ctx, settings, &request.Cluster, wish{version: request.KubernetesVersion})
}

func (v *verification) afterClusterUpgrade(
	ctx context.Context, settings setting.Values, request *runtimehooksv1.AfterClusterUpgradeRequest,
) (part.Answer, error) {
	return v.verify(ctx, settings, &request.Cluster, wish{version: request.KubernetesVersion, workers: true})
}

// wish is the desired state of a cluster.
type wish struct {
	version string
	// workers says whether workers must have the version, too.
	workers bool
	// addOns are compared with what was applied if compare is true.
	addOns  []addon.Object
	compare bool
}

// verify holds back a Cluster while anything is wrong, and lists in the message what is wrong.
func (v *verification) verify(
	ctx context.Context, settings setting.Values, cluster *clusterv1.Cluster, wanted wish,
) (answer part.Answer, err error) {
	if wanted.compare, err = part.IsOn(addon.Name, cluster, settings); err != nil {
		return answer, err
	}
	if wanted.compare {
		// If the namespace has no add-ons at all, nothing is removed, so nothing is outstanding.
		if wanted.addOns, wanted.compare, err = addon.Wanted(ctx, v.reader, cluster, wanted.version); err != nil {
			return answer, err
		}
	}
	machines, err := machinesOf(ctx, v.reader, cluster)
	if err != nil {
		return answer, err
	}
	there, err := workload.Connect(ctx, v.reader, client.ObjectKeyFromObject(cluster), v.scheme)
	if errors.Is(err, workload.ErrNoKubeconfig) && len(machines) == 0 && !workload.HasKubeadm(cluster) {
		return part.Pass(finding.Finding{
			Reason: ReasonNothing, Message: "there is nothing to verify: no Machines, no kubeconfig",
		}), nil
	}
	if err != nil {
		return hold(finding.Finding{Reason: ReasonUnreachable, Message: err.Error()}), nil
	}
	defer there.Close()
	return v.lookAgain(ctx, cluster, there, machines, wanted)
}

// lookAgain checks a workload cluster until all is well or the patience runs out.
func (v *verification) lookAgain(
	ctx context.Context, cluster *clusterv1.Cluster, there *workload.Cluster, machines []Machine, wanted wish,
) (answer part.Answer, err error) {
	for start := time.Now(); ; {
		var found []finding.Finding
		state, err := see(ctx, there, wanted.addOns, wanted.compare)
		if err != nil {
			found = []finding.Finding{{Reason: ReasonUnreachable, Message: err.Error()}}
		} else {
			state.Machines, state.StaticPods = machines, workload.HasKubeadm(cluster)
			found = Findings(state, wanted.version, wanted.workers)
		}
		if len(found) == 0 {
			message := fmt.Sprintf("verified: API server, control plane, add-ons, and %d of the Cluster's Nodes",
				checked(machines, wanted.workers))
			return part.Pass(finding.Finding{Reason: ReasonVerified, Message: message}), nil
		}
		if time.Since(start) > v.patience || backoff.Sleep(ctx, lookPause) != nil {
			return hold(found...), nil
		}
		if machines, err = machinesOf(ctx, v.reader, cluster); err != nil {
			return answer, err
		}
	}
}

// hold reports the first few findings. The answer has the first one's reason.
func hold(found ...finding.Finding) part.Answer {
	var messages []string
	for _, f := range found[:min(named, len(found))] {
		messages = append(messages, f.Message)
	}
	if more := len(found) - named; more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	return part.Hold(workload.HookRetry,
		finding.Finding{Reason: found[0].Reason, Message: "verification: " + strings.Join(messages, "; ")})
}

func checked(machines []Machine, workers bool) int {
	count := 0
	for _, m := range machines {
		if m.ControlPlane || workers {
			count++
		}
	}
	return count
}
