package upgradeplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/server"
)

// maxSkew is how many minor versions a kubelet may be older than its API server.
const maxSkew = 3

// Plan lists the versions that a Cluster goes through, in ascending order, each spelled as in the input.
type Plan struct {
	// ControlPlane ends with the target version. It is empty if the control plane already has it.
	ControlPlane []string
	// Workers ends with the target version. It is empty if the workers already have it, or if there are none. It has as
	// few versions as the skew allows, because workers are replaced for each.
	Workers []string
}

// Compute plans the upgrade of control plane and workers to a target version. workers is their lowest version, empty
// if there are none; available lists the available versions in any order. For each minor version between the current
// one and the target's, the plan takes the highest available version. It takes a pre-release only as the target.
func Compute(controlPlane, workers, target string, available []string) (Plan, error) {
	from, err := version.ParseSemantic(controlPlane)
	if err != nil {
		return Plan{}, fmt.Errorf("reading the version %q of the control plane: %w", controlPlane, err)
	}
	to, err := version.ParseSemantic(target)
	if err != nil {
		return Plan{}, fmt.Errorf("reading the version %q that is requested: %w", target, err)
	}
	switch {
	case !slices.Contains(available, target):
		return Plan{}, fmt.Errorf("version %s is not available; these are: %s", target, strings.Join(available, ", "))
	case to.LessThan(from):
		return Plan{}, fmt.Errorf("the control plane is already at %s: it can't go back to %s", controlPlane, target)
	case to.Major() != from.Major():
		return Plan{}, fmt.Errorf("there is no path from %s to %s: the major versions differ", controlPlane, target)
	}
	var plan Plan
	if controlPlane != target {
		if plan.ControlPlane, err = minorByMinor(from, to, available); err != nil {
			return Plan{}, err
		}
		plan.ControlPlane = append(plan.ControlPlane, target)
	}
	if workers == "" || workers == target {
		return plan, nil
	}
	if plan.Workers, err = following(workers, controlPlane, plan.ControlPlane); err != nil {
		return Plan{}, err
	}
	if last := len(plan.Workers) - 1; last < 0 || plan.Workers[last] != target {
		plan.Workers = append(plan.Workers, target)
	}
	return plan, nil
}

// minorByMinor returns the highest version of each minor version between two versions.
func minorByMinor(from, to *version.Version, available []string) ([]string, error) {
	highest := map[uint]*version.Version{}
	text := map[uint]string{}
	for _, one := range available {
		v, err := version.ParseSemantic(one)
		if err != nil {
			return nil, fmt.Errorf("reading the version %q that is available: %w", one, err)
		}
		if v.Major() != from.Major() || v.PreRelease() != "" {
			continue
		}
		if h := highest[v.Minor()]; h == nil || h.LessThan(v) {
			highest[v.Minor()], text[v.Minor()] = v, one
		}
	}
	var steps []string
	for minor := from.Minor() + 1; minor < to.Minor(); minor++ {
		if text[minor] == "" {
			return nil, fmt.Errorf("there is no path from v%s to v%s: no version v%d.%d is available, and control planes can't "+
				"leave out a minor version", from, to, from.Major(), minor)
		}
		steps = append(steps, text[minor])
	}
	return steps, nil
}

// following returns the versions that workers must go through between the steps of their control plane, so that the
// skew is never exceeded.
func following(workers, controlPlane string, steps []string) ([]string, error) {
	at, err := version.ParseSemantic(workers)
	if err != nil {
		return nil, fmt.Errorf("reading the version %q of the workers: %w", workers, err)
	}
	above, err := version.ParseSemantic(controlPlane)
	if err != nil {
		return nil, fmt.Errorf("reading the version %q of the control plane: %w", controlPlane, err)
	}
	if above.LessThan(at) || above.Minor() > at.Minor()+maxSkew {
		return nil, fmt.Errorf("the workers are at %s and the control plane is at %s: workers may be at most %d minor "+
			"versions older, and not newer", workers, controlPlane, maxSkew)
	}
	var plan []string
	for _, step := range steps {
		next, err := version.ParseSemantic(step)
		if err != nil {
			return nil, fmt.Errorf("reading the version %q: %w", step, err)
		}
		if next.Minor() > at.Minor()+maxSkew {
			plan, at = append(plan, controlPlane), above
		}
		controlPlane, above = step, next
	}
	return plan, nil
}

// Generate makes a handler's function from one that returns the versions available for a Cluster. If that function
// fails, or if there is no plan, the handler fails: this blocks the upgrade and is shown in the Cluster's conditions.
func Generate(available func(ctx context.Context,
	request *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error)) server.Func[
	runtimehooksv1.GenerateUpgradePlanRequest, runtimehooksv1.GenerateUpgradePlanResponse] {
	if available == nil {
		return nil // which server.New reports
	}
	return func(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest,
		response *runtimehooksv1.GenerateUpgradePlanResponse) error {
		versions, err := available(ctx, request)
		if err != nil {
			return err
		}
		if len(versions) == 0 {
			return errors.New("no version of Kubernetes is available")
		}
		plan, err := Compute(request.FromControlPlaneKubernetesVersion, request.FromWorkersKubernetesVersion,
			request.ToKubernetesVersion, versions)
		if err != nil {
			return err
		}
		response.ControlPlaneUpgrades, response.WorkersUpgrades = steps(plan.ControlPlane), steps(plan.Workers)
		return nil
	}
}

func steps(versions []string) []runtimehooksv1.UpgradeStep {
	var all []runtimehooksv1.UpgradeStep
	for _, v := range versions {
		all = append(all, runtimehooksv1.UpgradeStep{Version: v})
	}
	return all
}
