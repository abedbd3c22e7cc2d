package local

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/hint"
)

const tenantsKubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[
{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}],
"clusters":[{"name":"c","cluster":{"server":"https://10.231.16.1:6443"}}]}`

func TestThroughRelay(t *testing.T) {
	data, err := throughRelay([]byte(tenantsKubeconfig), "127.0.0.1:41000", "10.231.16.1")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Clusters["c"]; c.Server != "https://127.0.0.1:41000" || c.TLSServerName != "10.231.16.1" {
		t.Errorf("the server is %s with the TLS name %s", c.Server, c.TLSServerName)
	}
	_, err = throughRelay([]byte("{"), "127.0.0.1:41000", "10.231.16.1")
	if err == nil || !strings.Contains(err.Error(), "parsing it") {
		t.Errorf("an incomplete kubeconfig: got error %v", err)
	}
}

// TestAKubeconfigOfATenantRunsNothing: the result makes no program of this user run another one or read a file.
func TestAKubeconfigOfATenantRunsNothing(t *testing.T) {
	for name, user := range map[string]string{
		"a program": `{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"/bin/sh","args":["-c","id"]}}`,
		"a plugin":  `{"auth-provider":{"name":"oidc"}}`,
		"a file":    `{"tokenFile":"/etc/shadow"}`,
	} {
		text := strings.Replace(tenantsKubeconfig, `{"token":"t"}`, user, 1)
		if data, err := throughRelay([]byte(text), "127.0.0.1:41000", "10.231.16.1"); err == nil {
			t.Errorf("%s was accepted: %s", name, data)
		}
	}
	// Entries that no context refers to are left out.
	text := strings.Replace(tenantsKubeconfig, `"users":[`,
		`"users":[{"name":"other","user":{"exec":{"command":"/bin/sh"}}},`, 1)
	data, err := throughRelay([]byte(text), "127.0.0.1:41000", "10.231.16.1")
	if err != nil || strings.Contains(string(data), "/bin/sh") {
		t.Errorf("error %v, kubeconfig %s", err, data)
	}
}

// TestClusterKubeconfigLeadsToClustersOnly: a relay leads only to a balancer or a host, never to the plane's own ports,
// which are on the dock's loopback interface.
func TestClusterKubeconfigLeadsToClustersOnly(t *testing.T) {
	for _, host := range []string{
		"127.0.0.1", "::1", "10.231.0.1", "169.254.169.254", "localhost", "127.1", "10.231.16.1%eth0",
	} {
		cluster, secret := &clusterv1.Cluster{}, &corev1.Secret{Data: map[string][]byte{"value": []byte(tenantsKubeconfig)}}
		cluster.Namespace, cluster.Name = "default", "blue"
		secret.Namespace, secret.Name = "default", "blue-kubeconfig"
		cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: 2379}
		c := fake.NewClientBuilder().WithScheme(NewScheme()).WithObjects(secret).Build()
		_, err := ClusterKubeconfig(t.Context(), t.TempDir(), c, cluster)
		if err == nil || !strings.Contains(err.Error(), "is neither in the dock") {
			t.Errorf("an endpoint at %s: got error %v", host, err)
		}
	}
}

// TestClusterKubeconfigNeedsACluster: the error says what is missing and what to do.
func TestClusterKubeconfigNeedsACluster(t *testing.T) {
	cluster, secret := &clusterv1.Cluster{}, &corev1.Secret{Data: map[string][]byte{"value": []byte(tenantsKubeconfig)}}
	cluster.Namespace, cluster.Name = "default", "blue"
	secret.Namespace, secret.Name = "default", "blue-kubeconfig"
	ready := cluster.DeepCopy()
	ready.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.231.16.1", Port: 6443}
	for name, c := range map[string]struct {
		cluster          *clusterv1.Cluster
		secret           bool
		want, wantedHint string
	}{
		"no Secret yet":   {ready, false, "cluster blue has no kubeconfig yet", "capstan cluster describe blue"},
		"no endpoint yet": {cluster, true, "cluster blue has no kubeconfig yet", "capstan cluster describe blue"},
		"no dock":         {ready, true, "opening a relay to cluster blue", "run: capstan up"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(NewScheme())
			if c.secret {
				builder = builder.WithObjects(secret.DeepCopy())
			}
			_, err := ClusterKubeconfig(t.Context(), t.TempDir(), builder.Build(), c.cluster)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(hint.Of(err), c.wantedHint) {
				t.Errorf("got %v with hint %q", err, hint.Of(err))
			}
		})
	}
}

// TestOtherComputer: the endpoint of a cluster on owned hosts is another computer's address and needs no relay.
func TestOtherComputer(t *testing.T) {
	for host, want := range map[string]bool{
		"192.0.2.11": true, "2001:db8::7": true, "127.0.0.1": false, "::ffff:127.0.0.1": false, "10.231.0.1": false,
		"10.231.255.254": false, "169.254.169.254": false, "0.0.0.0": false, "224.0.0.1": false, "localhost": false,
		"fe80::1%eth0": false, "": false,
	} {
		if got := otherComputer(host); got != want {
			t.Errorf("is %q another computer? got %v", host, got)
		}
	}
}

// TestANameLeadsToAnotherComputer: an endpoint's name resolves to the address of another computer. Of several
// addresses, one that answers is used.
func TestANameLeadsToAnotherComputer(t *testing.T) {
	for name, c := range map[string]struct {
		addresses   []string
		want, fails string
		answers     string // which of several addresses answers
	}{
		"one IPv4 address":                    {addresses: []string{"192.0.2.11"}, want: "192.0.2.11:6443"},
		"one IPv6 address":                    {addresses: []string{"2001:db8::7"}, want: "[2001:db8::7]:6443"},
		"an IPv4 address in the form of IPv6": {addresses: []string{"::ffff:192.0.2.11"}, want: "192.0.2.11:6443"},
		"this machine, another computer and the plane": {
			addresses: []string{"127.0.0.1", "192.0.2.11", "10.231.0.1"}, want: "192.0.2.11:6443",
		},
		"of several addresses, one answers": {
			addresses: []string{"127.0.0.1", "192.0.2.11", "192.0.2.12"}, answers: "192.0.2.12:6443", want: "192.0.2.12:6443",
		},
		"of several addresses, none answers": {
			addresses: []string{"192.0.2.11", "192.0.2.12"}, want: "192.0.2.11:6443",
		},
		"only addresses of this machine": {addresses: []string{"127.0.0.1", "::1"}, fails: "nor to another computer"},
		"only the plane's address":       {addresses: []string{"10.231.0.1"}, fails: "nor to another computer"},
		"only the address of a cloud's metadata service": {
			addresses: []string{"169.254.169.254"}, fails: "nor to another computer",
		},
		"a name that does not resolve": {fails: "resolving its name"},
	} {
		t.Run(name, func(t *testing.T) {
			lookup := func(_ context.Context, _, host string) (found []netip.Addr, err error) {
				for _, a := range c.addresses {
					found = append(found, netip.MustParseAddr(a))
				}
				if found == nil || host != "api.example" {
					return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
				}
				return found, nil
			}
			dial := func(_ context.Context, _, address string) (net.Conn, error) {
				if address != c.answers {
					return nil, errors.New("connection refused")
				}
				near, far := net.Pipe()
				return near, far.Close()
			}
			got, err := named(t.Context(), resolver{lookup, dial}, "api.example", "api.example:6443")
			if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %q, error %v", got, err)
			}
		})
	}
}
