// Package supply defines Supplier, through which the provider creates hosts: a Supplier powers on a host when it is
// claimed and destroys it when it is released.
package supply

import (
	"context"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Supplier creates and destroys hosts. All calls must be idempotent, and must return when their context ends. The name
// of a host is that of its CapstanHost.
type Supplier interface {
	// Versions returns the versions of Kubernetes that new hosts can install, newest first, for example v1.36.3. An empty
	// result means any version.
	Versions() []string

	// PowerOn makes sure that the host exists and runs, and returns its IP address. agentConfig becomes the host's
	// /etc/capstan/agent.yaml, no later than the host's next start.
	PowerOn(ctx context.Context, host string, agentConfig []byte) (address string, err error)

	// Destroy removes the host and everything that it stored. When it returns nil, no process, mount or file of the host
	// is left.
	Destroy(ctx context.Context, host string) error

	// List returns the hosts that exist, running or not.
	List(ctx context.Context) ([]string, error)
}

// NamespaceOf returns the namespace of the CapstanHost that a Supplier's host belongs to, or "" if it belongs to none.
// A Supplier knows hosts only by name, so it can't create a second host for a CapstanHost of the same name in another
// namespace.
type NamespaceOf func(host string) string

// In returns a NamespaceOf for hosts that are all in one namespace.
func In(namespace string) NamespaceOf { return func(string) string { return namespace } }

// AgentServer is how agents reach the API server of the management cluster.
type AgentServer struct {
	// URL is the server's URL, for example https://10.231.0.1:6443.
	URL string
	// CAData holds the certificate authorities of the server's certificate, as PEM.
	CAData []byte
}

// agentConfig is the configuration file of an agent on a supplied host. In the file, caData is base64 of PEM, as in a
// kubeconfig.
type agentConfig struct {
	Server    string `json:"server"`
	CAData    []byte `json:"caData"`
	Namespace string `json:"namespace"`
	Host      string `json:"host"`
	Token     string `json:"token"`
	Local     bool   `json:"local"`
}

// AgentConfig returns the configuration file of the agent on a supplied host. The file is secret, because it contains
// the token.
func AgentConfig(server AgentServer, namespace, host, token string) ([]byte, error) {
	data, err := yaml.Marshal(agentConfig{
		Server: server.URL, CAData: server.CAData, Namespace: namespace, Host: host, Token: token, Local: true,
	})
	if err != nil {
		return nil, fmt.Errorf("writing the agent's configuration for host %s: %w", host, err)
	}
	return data, nil
}
