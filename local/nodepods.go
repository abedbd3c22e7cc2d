package local

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/text"
	"github.com/capstan-dev/capstan/provider/claim"
)

const (
	// nodesLimit bounds the request for Nodes, nodesMost their number, and nodesBytes the answer.
	nodesLimit = 5 * time.Second
	nodesMost  = 500
	nodesBytes = 32 << 20
)

// NodePods describes how the pods of a Node run, according to its labels. Its JSON form is stable.
type NodePods struct {
	Node string `json:"node"`
	// Host is the name of the CapstanHost; empty: the Node is on no host of the cluster's namespace.
	Host string `json:"host,omitempty"`
	// Hollow is true if pods other than control plane components have no processes.
	Hollow bool `json:"hollow"`
	// IDs is "all" if containers can have 65,536 user and group ids, or "one". Empty: unknown, or the Node is hollow.
	IDs string `json:"ids,omitempty"`
	// Limits lists the limits that apply to containers, such as "cpu.memory.pids", or is "none". Empty: unknown, or the
	// Node is hollow.
	Limits string `json:"limits,omitempty"`
}

// String describes the pods of a Node without its name.
func (p NodePods) String() string {
	if p.Hollow {
		return "hollow"
	}
	said := "real"
	if p.IDs != "" {
		said += ", ids " + p.IDs
	}
	if p.Limits != "" {
		said += ", limits " + p.Limits
	}
	return said
}

// PodsOfNodes returns how pods run on each Node of a cluster. c is a client of the plane.
func PodsOfNodes(
	ctx context.Context, homePath string, c client.Reader, cluster *clusterv1.Cluster,
) ([]NodePods, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesLimit)
	defer cancel()
	path, err := ClusterKubeconfig(ctx, homePath, c, cluster)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster.Name, err)
	}
	pods, err := askNodes(ctx, config, cluster.Namespace)
	if err != nil {
		return nil, fmt.Errorf("listing the Nodes of cluster %s: %w", cluster.Name, err)
	}
	return pods, nil
}

// askNodes lists Nodes. The server may be a tenant's, so nothing that it says is trusted.
func askNodes(ctx context.Context, config *rest.Config, namespace string) ([]NodePods, error) {
	caller, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("%s/api/v1/nodes?limit=%d", strings.TrimSuffix(config.Host, "/"), nodesMost)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := caller.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API server answers %s", response.Status)
	}
	var list struct{ Items []nodeAnswer }
	if err := json.NewDecoder(io.LimitReader(response.Body, nodesBytes)).Decode(&list); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	pods := make([]NodePods, 0, len(list.Items))
	for _, n := range list.Items {
		pods = append(pods, n.pods(namespace))
	}
	return pods, nil
}

// nodeAnswer holds the fields of a Node that say how its pods run.
type nodeAnswer struct {
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Spec   struct{ ProviderID string }
	Status struct {
		NodeInfo struct{ ContainerRuntimeVersion string }
	}
}

// Labels of Nodes on local hosts (package mode of the module kube), and what their values look like.
const (
	hollowLabel = "capstan.dev/hollow"
	idsLabel    = "capstan.dev/ids"
	limitsLabel = "capstan.dev/limits"
)

var labelValue = regexp.MustCompile(`^[a-z.]{1,40}$`)

// pods returns how the pods of a Node run. A Node of our runtime without labels comes from an early bundle, which had
// only hollow pods. Pure.
func (n nodeAnswer) pods(namespace string) NodePods {
	value := func(label string) string {
		if v := n.Metadata.Labels[label]; labelValue.MatchString(v) {
			return v
		}
		return ""
	}
	p := NodePods{
		Node: text.OneLine(n.Metadata.Name, 253), Host: claim.HostOf(n.Spec.ProviderID, namespace),
		IDs: value(idsLabel), Limits: value(limitsLabel),
	}
	ours := strings.HasPrefix(n.Status.NodeInfo.ContainerRuntimeVersion, "capstan://")
	p.Hollow = value(hollowLabel) == "true" || ours && p.IDs == ""
	if p.Hollow {
		p.IDs, p.Limits = "", ""
	}
	return p
}
