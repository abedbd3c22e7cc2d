package metricsapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	askLimit     = 5 * time.Second // limit for one kubelet
	askAtOnce    = 20
	kubeletPort  = 10250
	tokenSeconds = 600 // the shortest lifetime that an API server grants
	tokenMargin  = 2 * time.Minute
)

// kubelets asks the kubelets of all Nodes for their metrics.
//
// Kubelets that kubeadm sets up have self-signed certificates, so whoever has a Node's address can answer in its place.
// That is why requests to kubelets don't carry the server's own token. They carry the token of a service account that
// may only read kubelets' metrics; it is valid for ten minutes.
type kubelets struct {
	api    kubernetes.Interface
	client *http.Client
	log    *slog.Logger

	mu      sync.Mutex
	token   string
	expires time.Time
}

func newKubelets(api kubernetes.Interface, log *slog.Logger) *kubelets {
	return &kubelets{api: api, log: log, client: &http.Client{
		Timeout: askLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the answer is a redirect, which a kubelet never sends, so it is ignored")
		},
		Transport: &http.Transport{
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, // see kubelets
			MaxIdleConnsPerHost:    1,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}}
}

// read asks all kubelets. A Node whose kubelet doesn't answer is missing from the result.
func (k *kubelets) read(ctx context.Context) (map[string]map[container]point, error) {
	token, err := k.currentToken(ctx)
	if err != nil {
		return nil, err
	}
	list, err := k.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	var (
		mu    sync.Mutex
		nodes = make(map[string]map[container]point, len(list.Items))
		group sync.WaitGroup
		place = make(chan struct{}, askAtOnce)
	)
	for _, node := range list.Items {
		group.Go(func() {
			place <- struct{}{}
			defer func() { <-place }()
			points, err := k.ask(ctx, &node, token)
			if err != nil {
				k.log.WarnContext(ctx, "asking a kubelet for its metrics", "node", node.Name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			nodes[node.Name] = points
		})
	}
	group.Wait()
	return nodes, nil
}

// ask asks the kubelet of one Node.
func (k *kubelets) ask(ctx context.Context, node *corev1.Node, token string) (map[container]point, error) {
	url, err := address(node)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the kubelet answers %s", resp.Status)
	}
	return parse(resp.Body, time.Now())
}

// address returns the address at which the kubelet of a Node serves metrics.
func address(node *corev1.Node) (string, error) {
	port := int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if port == 0 {
		port = kubeletPort
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && net.ParseIP(a.Address) != nil {
			return "https://" + net.JoinHostPort(a.Address, strconv.Itoa(port)) + "/metrics/resource", nil
		}
	}
	return "", errors.New("the Node has no InternalIP")
}

// currentToken returns a token for kubelets that is valid for some time.
func (k *kubelets) currentToken(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token != "" && time.Until(k.expires) > tokenMargin {
		return k.token, nil
	}
	asked, err := k.api.CoreV1().ServiceAccounts(Namespace).CreateToken(ctx, KubeletAccount,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token for kubelets: %w", err)
	}
	k.token, k.expires = asked.Status.Token, asked.Status.ExpirationTimestamp.Time
	return k.token, nil
}
