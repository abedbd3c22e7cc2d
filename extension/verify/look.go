package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/addon"
	"github.com/capstan-dev/capstan/extension/paging"
	"github.com/capstan-dev/capstan/extension/workload"
)

// maxAnswer limits the bytes read of a workload cluster's answer.
const maxAnswer = 64 << 10

// machinesOf returns the Machines of a Cluster that are not being deleted.
func machinesOf(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) ([]Machine, error) {
	var found []Machine
	seen := 0
	err := paging.List(ctx, source(reader, cluster.Namespace, "Machines"),
		func() *clusterv1.MachineList { return &clusterv1.MachineList{} },
		func(list *clusterv1.MachineList) int {
			seen += len(list.Items)
			for i := range list.Items {
				m := &list.Items[i]
				if m.Spec.ClusterName != cluster.Name || !m.DeletionTimestamp.IsZero() {
					continue
				}
				_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
				found = append(found, Machine{Name: m.Name, Node: m.Status.NodeRef.Name, ControlPlane: controlPlane})
			}
			return seen
		})
	return found, err
}

// source configures lists for the verification.
func source(reader client.Reader, namespace, what string) paging.Source {
	return paging.Source{Reader: reader, Namespace: namespace, What: what, By: "the verification"}
}

// see reads the state of a workload cluster.
func see(ctx context.Context, there *workload.Cluster, wanted []addon.Object, addOnsOn bool) (state State, err error) {
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

// notReady returns the failed checks of /readyz.
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

func nodes(ctx context.Context, there *workload.Cluster) ([]Node, error) {
	var found []Node
	all := source(there, "", "Nodes")
	err := paging.List(ctx, all, func() *corev1.NodeList { return &corev1.NodeList{} }, func(list *corev1.NodeList) int {
		for i := range list.Items {
			node := &list.Items[i]
			seen := Node{Name: node.Name, Version: node.Status.NodeInfo.KubeletVersion, Reason: "no condition yet"}
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

// pods returns the static Pods of the control plane.
func pods(ctx context.Context, there *workload.Cluster) ([]Pod, error) {
	list := &corev1.PodList{}
	err := there.List(ctx, list, client.InNamespace("kube-system"), client.MatchingLabels{"tier": "control-plane"},
		client.Limit(paging.Size))
	if err != nil {
		return nil, fmt.Errorf("listing Pods of the control plane: %w", err)
	}
	var found []Pod
	for i := range list.Items {
		pod := &list.Items[i]
		seen := Pod{Component: pod.Labels["component"], Node: pod.Spec.NodeName}
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
