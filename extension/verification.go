package extension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/extension/verify"
	"github.com/capstan-dev/capstan/extension/workload"
	"github.com/capstan-dev/capstan/runtime/server"
)

const (
	// verifyFor is the default of how long one call looks again before it answers that something is not right: most of it is right a moment later, and the
	// caller would ask only seconds after that.
	verifyFor = 3 * time.Second
	// verifyPause is how long it waits in between.
	verifyPause = 300 * time.Millisecond
	// maxAnswer bounds what is read of an answer of a workload cluster.
	maxAnswer = 64 << 10
)

// verification looks whether a cluster is right after its version has changed.
type verification struct {
	addOns *addOns // what is wanted, and how workload clusters are reached
	// patience is how long one call looks again.
	patience time.Duration
}

func (v *verification) afterControlPlaneUpgrade(ctx context.Context, settings setting.Values, request *runtimehooksv1.AfterControlPlaneUpgradeRequest, response *runtimehooksv1.AfterControlPlaneUpgradeResponse) (err error) {
	response.Message, err = v.verify(ctx, settings, &request.Cluster, request.KubernetesVersion, false)
	return err
}

func (v *verification) afterClusterUpgrade(ctx context.Context, settings setting.Values, request *runtimehooksv1.AfterClusterUpgradeRequest, response *runtimehooksv1.AfterClusterUpgradeResponse) (err error) {
	response.Message, err = v.verify(ctx, settings, &request.Cluster, request.KubernetesVersion, true)
	return err
}

// verify waits, with everything that is not right in the reason.
func (v *verification) verify(ctx context.Context, settings setting.Values, cluster *clusterv1.Cluster, version string, workers bool) (message string, err error) {
	addOnsOn, err := isActive(AddOns, cluster, settings)
	if err != nil {
		return "", err
	}
	var wanted []addon.Object
	if addOnsOn {
		// Without any add-on in the namespace nothing is removed, so nothing is missed.
		if wanted, addOnsOn, err = v.addOns.choose(ctx, cluster, version); err != nil {
			return "", err
		}
	}
	kubeadm := hasKubeadm(cluster)
	machines, err := v.machines(ctx, cluster)
	if err != nil {
		return "", err
	}
	there, err := workload.Connect(ctx, v.addOns.reader, client.ObjectKeyFromObject(cluster), v.addOns.scheme)
	if errors.Is(err, workload.ErrNoKubeconfig) && len(machines) == 0 && !kubeadm {
		return "there is nothing to verify: no Machines, no kubeconfig", nil
	}
	if err != nil {
		return "", server.Wait(workloadRetry, "verification: "+err.Error())
	}
	defer there.Close()

	var problems []string
	for start := time.Now(); ; {
		state, err := see(ctx, there, wanted, addOnsOn)
		if err != nil {
			problems = []string{err.Error()}
		} else {
			state.Machines, state.StaticPods = machines, kubeadm
			problems = verify.Problems(state, version, workers)
		}
		if len(problems) == 0 {
			return fmt.Sprintf("verified: API server, control plane, add-ons, and %d of the Cluster's Nodes", checked(machines, workers)), nil
		}
		if time.Since(start) > v.patience || !pause(ctx, verifyPause) {
			break
		}
		if machines, err = v.machines(ctx, cluster); err != nil {
			return "", err
		}
	}
	more := ""
	if extra := len(problems) - named; extra > 0 {
		more = fmt.Sprintf("; and %d more", extra)
	}
	return "", server.Wait(workloadRetry, "verification: "+strings.Join(problems[:min(named, len(problems))], "; ")+more)
}

// pause waits; it is false if ctx ends before.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// hasKubeadm tells whether the control plane of a Cluster is kubeadm's: it has Machines, and static Pods on them.
func hasKubeadm(cluster *clusterv1.Cluster) bool {
	return cluster.Spec.ControlPlaneRef.Kind == kubeadmControlPlane.Kind
}

func checked(machines []verify.Machine, workers bool) int {
	count := 0
	for _, m := range machines {
		if m.ControlPlane || workers {
			count++
		}
	}
	return count
}

// machines gives the Machines of a Cluster that stay.
func (v *verification) machines(ctx context.Context, cluster *clusterv1.Cluster) ([]verify.Machine, error) {
	var found []verify.Machine
	seen := 0
	err := pages(ctx, v.addOns.reader, cluster.Namespace, "Machines", func() *clusterv1.MachineList { return &clusterv1.MachineList{} },
		func(list *clusterv1.MachineList) int {
			seen += len(list.Items)
			for i := range list.Items {
				m := &list.Items[i]
				if m.Spec.ClusterName != cluster.Name || !m.DeletionTimestamp.IsZero() {
					continue
				}
				_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
				found = append(found, verify.Machine{Name: m.Name, Node: m.Status.NodeRef.Name, ControlPlane: controlPlane})
			}
			return seen
		})
	return found, err
}

// see looks at a workload cluster.
func see(ctx context.Context, there *workload.Cluster, wanted []addon.Object, addOnsOn bool) (state verify.State, err error) {
	if state.NotReady, err = notReady(ctx, there); err != nil || len(state.NotReady) > 0 {
		return state, err
	}
	var version struct{ GitVersion string }
	body, status, err := fetch(ctx, there, "/version")
	switch {
	case err != nil:
	case status != http.StatusOK:
		err = fmt.Errorf("it answers %d", status)
	default:
		err = json.Unmarshal(body, &version)
	}
	if err != nil {
		return state, fmt.Errorf("reading the version of the API server: %w", err)
	}
	state.ServerVersion = version.GitVersion
	if state.Nodes, err = nodes(ctx, there); err != nil {
		return state, err
	}
	if state.Pods, err = pods(ctx, there); err != nil {
		return state, err
	}
	if !addOnsOn {
		return state, nil
	}
	missing, superfluous, err := addon.Outstanding(ctx, there, wanted)
	for _, ref := range slices.Concat(missing, superfluous) {
		state.AddOns = append(state.AddOns, ref.String())
	}
	return state, err
}

// notReady gives the failed checks of /readyz.
func notReady(ctx context.Context, there *workload.Cluster) ([]string, error) {
	body, status, err := fetch(ctx, there, "/readyz?verbose")
	if err != nil {
		return nil, fmt.Errorf("asking the API server whether it is ready: %w", err)
	}
	if status == http.StatusOK {
		return nil, nil
	}
	var failed []string
	for line := range strings.Lines(string(body)) {
		if check, is := strings.CutPrefix(strings.TrimSpace(line), "[-]"); is {
			name, _, _ := strings.Cut(check, " ")
			failed = append(failed, name)
		}
	}
	if len(failed) == 0 {
		failed = []string{fmt.Sprintf("/readyz answers %d", status)}
	}
	return failed, nil
}

func fetch(ctx context.Context, there *workload.Cluster, path string) (body []byte, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(there.Config.Host, "/")+path, nil)
	if err != nil {
		return nil, 0, err
	}
	response, err := there.HTTP.Do(request)
	if err != nil {
		return nil, 0, errors.Unwrap(err) // without the URL
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return body, response.StatusCode, err
}

func nodes(ctx context.Context, there *workload.Cluster) ([]verify.Node, error) {
	var found []verify.Node
	err := pages(ctx, there, "", "Nodes", func() *corev1.NodeList { return &corev1.NodeList{} }, func(list *corev1.NodeList) int {
		for i := range list.Items {
			node := &list.Items[i]
			seen := verify.Node{Name: node.Name, Version: node.Status.NodeInfo.KubeletVersion, Reason: "no condition yet"}
			for _, c := range node.Status.Conditions {
				if c.Type == corev1.NodeReady {
					seen.Ready, seen.Reason = c.Status == corev1.ConditionTrue, c.Reason
				}
			}
			found = append(found, seen)
		}
		return len(found)
	})
	return found, err
}

// pods gives the static Pods of the control plane.
func pods(ctx context.Context, there *workload.Cluster) ([]verify.Pod, error) {
	list := &corev1.PodList{}
	err := there.List(ctx, list, client.InNamespace("kube-system"), client.MatchingLabels{"tier": "control-plane"}, client.Limit(pageSize))
	if err != nil {
		return nil, fmt.Errorf("listing Pods of the control plane: %w", err)
	}
	var found []verify.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		seen := verify.Pod{Component: pod.Labels["component"], Node: pod.Spec.NodeName}
		for _, c := range pod.Status.Conditions {
			seen.Ready = seen.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		for _, container := range pod.Spec.Containers {
			if container.Name == seen.Component {
				seen.Image = container.Image
			}
		}
		found = append(found, seen)
	}
	return found, nil
}
