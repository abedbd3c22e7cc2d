package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/atomicfile"
	"github.com/capstan-dev/capstan/internal/dnsname"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/kubeconfig"
)

// ClusterKubeconfig writes a kubeconfig for a cluster into the home directory, for the user of this machine, and
// returns its path. For a cluster on local hosts, the server is a relay on loopback, because the cluster's own address
// works only inside the dock. For other clusters, the server is their endpoint, or an address of that endpoint. c is a
// client of the plane.
func ClusterKubeconfig(
	ctx context.Context, homePath string, c client.Reader, cluster *clusterv1.Cluster,
) (path string, err error) {
	dir, err := homeDir(homePath)
	if err != nil {
		return "", err
	}
	name, endpoint := cluster.Name, cluster.Spec.ControlPlaneEndpoint
	network := resolver{net.DefaultResolver.LookupNetIP, (&net.Dialer{}).DialContext}
	secret := &corev1.Secret{}
	err = c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: name + "-kubeconfig"}, secret)
	if apierrors.IsNotFound(err) || (err == nil && endpoint.IsZero()) {
		return "", hint.Errorf("follow its progress: capstan cluster describe "+name,
			"cluster %s has no kubeconfig yet", name)
	}
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig of cluster %s: %w", name, err)
	}
	relay := net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
	switch {
	case dock.IsBalancer(endpoint.Host) || dock.IsHost(endpoint.Host):
		relay, err = dock.Connect(string(dir)).EnsureRelay(ctx, RelayName(cluster.Namespace, name), relay)
		if err != nil {
			return "", hint.Errorf("run: capstan up", "opening a relay to cluster %s: %w", name, err)
		}
	case dnsname.Valid(endpoint.Host):
		relay, err = named(ctx, network, endpoint.Host, relay)
		if err != nil {
			return "", hint.Errorf("read it with: capstan kubectl get secret "+name+"-kubeconfig",
				"the endpoint of cluster %s, %s port %d: %w", name, endpoint.Host, endpoint.Port, err)
		}
	case !otherComputer(endpoint.Host):
		return "", hint.Errorf("read it with: capstan kubectl get secret "+name+"-kubeconfig",
			"the endpoint of cluster %s, %s port %d, is neither in the dock nor on another computer",
			name, endpoint.Host, endpoint.Port)
	}
	data, err := throughRelay(secret.Data["value"], relay, endpoint.Host)
	if err != nil {
		return "", fmt.Errorf("the kubeconfig of cluster %s: %w", name, err)
	}
	path = dir.ClusterKubeconfig(cluster.Namespace, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of cluster %s: %w", name, err)
	}
	if err := atomicfile.Write(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of cluster %s: %w", name, err)
	}
	return path, nil
}

// namedLimit bounds resolving an endpoint's name, and finding an address that answers.
const namedLimit = 10 * time.Second

// resolver is the part of the network that finding a name's address needs.
type resolver struct {
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// named resolves the name of an endpoint to the address of another computer. If there are several, it prefers one that
// accepts connections. The kubeconfig contains that address, and the name to verify the certificate with, so that
// nobody can redirect the name in between.
func named(ctx context.Context, r resolver, host, endpoint string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, namedLimit)
	defer cancel()
	addresses, err := r.lookup(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("resolving its name: %w", err)
	}
	_, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", err
	}
	var all []string
	for _, a := range addresses {
		if otherComputer(a.String()) {
			all = append(all, net.JoinHostPort(a.Unmap().String(), port))
		}
	}
	switch len(all) {
	case 0:
		return "", errors.New("its name leads neither into the dock nor to another computer")
	case 1:
		return all[0], nil
	}
	for _, at := range all {
		if r.answers(ctx, at, namedLimit/time.Duration(len(all)+1)) {
			return at, nil
		}
	}
	return all[0], nil
}

// answers reports whether something accepts a connection within a limit.
func (r resolver) answers(ctx context.Context, at string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := r.dial(ctx, "tcp", at)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// otherComputer reports whether an endpoint is the address of another computer, such as an owned host. It returns false
// for this machine and for addresses inside a dock. A tenant chooses endpoints, so none may lead to what listens on
// this machine. Pure.
func otherComputer(host string) bool {
	at, err := netip.ParseAddr(host)
	if err != nil || at.Zone() != "" || !at.Unmap().IsGlobalUnicast() {
		return false
	}
	return !slices.ContainsFunc(dock.Ranges(), func(text string) bool {
		return netip.MustParsePrefix(text).Contains(at.Unmap())
	})
}

// throughRelay changes a kubeconfig to reach its server through a relay. The certificate names the host, not the relay.
// The text comes from a tenant's Secret, and this user's programs read the result: nothing in it may make them run a
// program, read a file or use a proxy.
func throughRelay(text []byte, relay, host string) ([]byte, error) {
	config, err := kubeconfig.Read(text)
	if err != nil {
		return nil, fmt.Errorf("parsing it: %w", err)
	}
	for _, server := range config.Clusters {
		server.Server, server.TLSServerName = "https://"+relay, host
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding it: %w", err)
	}
	return data, nil
}
