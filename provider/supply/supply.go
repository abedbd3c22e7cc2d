// Package supply has the border between hosts and whoever makes them: a Supplier powers a host on when it is claimed,
// and destroys it when it is released.
package supply

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Supplier makes and destroys hosts. Every call may come again after it succeeded, and must then change nothing; no
// call may outlive its context. A host is named by its CapstanHost.
type Supplier interface {
	// Versions returns the versions of Kubernetes that new hosts can install, newest first, for example v1.36.3. Empty:
	// any.
	Versions() []string

	// PowerOn makes sure that the host exists and runs. agentConfig becomes /etc/capstan/agent.yaml, at the latest when
	// the host starts the next time. It returns the host's IP address.
	PowerOn(ctx context.Context, host string, agentConfig []byte) (address string, err error)

	// Destroy removes the host and all that it stored. When it returns nil, no process, mount or file of the host is left.
	Destroy(ctx context.Context, host string) error

	// List returns the hosts that exist, running or not.
	List(ctx context.Context) ([]string, error)
}

// NamespaceOf returns the namespace of the CapstanHost that a supplier makes a host for, "" if there is none. A
// Supplier knows hosts by name alone: a CapstanHost with the same name in another namespace is not supplied.
type NamespaceOf func(host string) string

// In says that all supplied hosts are in one namespace.
func In(namespace string) NamespaceOf { return func(string) string { return namespace } }

// AgentServer is where agents reach the API server of the management cluster.
type AgentServer struct {
	// URL, for example https://10.231.0.1:6443.
	URL string
	// CAData is the PEM of the certificate authorities that sign the server's certificate.
	CAData []byte
}

// agentConfig is the configuration file of an agent on a supplied host. CAData is base64 of PEM, as in a kubeconfig.
type agentConfig struct {
	Server    string `json:"server"`
	CAData    []byte `json:"caData"`
	Namespace string `json:"namespace"`
	Host      string `json:"host"`
	Token     string `json:"token"`
	Local     bool   `json:"local"`
}

// AgentConfig returns the configuration file of the agent on a supplied host. It holds the token: it is a secret.
func AgentConfig(server AgentServer, namespace, host, token string) ([]byte, error) {
	data, err := yaml.Marshal(agentConfig{
		Server: server.URL, CAData: server.CAData, Namespace: namespace, Host: host, Token: token, Local: true,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the agent's configuration for host %s: %w", host, err)
	}
	return data, nil
}
