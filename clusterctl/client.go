// Package clusterctl adapts the clusterctl library to a management plane that runs no containers.
//
// [Open] returns upstream's client for a management cluster. For an embedded plane, the providers built into it come
// from a repository in this binary, at the versions that the plane runs; there is no search for cert-manager and no
// need for a network. Whatever would need Pods is refused before anything is written. For any other management cluster,
// Open returns upstream's client, which additionally knows Capstan's cluster templates.
package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// answerTimeout limits a request to a management cluster.
const answerTimeout = 15 * time.Second

// embeddedMark is the annotation that an embedded plane sets on each object that it applies, including the providers in
// its inventory.
const embeddedMark = "plane.capstan.dev/hash"

// Options select a management cluster and configure the client.
type Options struct {
	// Kubeconfig is the path of the management cluster's kubeconfig. If the file does not exist, the client works without
	// a management cluster as far as possible.
	Kubeconfig string
	// Context is a context of the kubeconfig. Default: the current one.
	Context string
	// Config is the path or URL of clusterctl's configuration. Default: clusterctl's own, if it exists.
	Config string
	// Binaries are programs that an embedded plane runs as processes in place of the providers' Pods: absolute paths by
	// provider name, such as docker, or infrastructure-docker if the name is ambiguous.
	Binaries map[string]string
	// Allow is called before Binaries are installed, to permit the plane to run them. No other client may install Binaries
	// until done is called. Default: the plane may run them already.
	Allow func(ctx context.Context, binaries map[string]string) (done func(), err error)
	// Version is the version of this binary. Its cluster templates are used if there is no embedded plane and the
	// configuration has no repository of Capstan.
	Version string
}

// Client is upstream's client. It also knows which providers are built into the management cluster.
type Client struct {
	upstream.Client
	// Kubeconfig is passed to upstream's options. Its Path is empty without a management cluster.
	Kubeconfig upstream.Kubeconfig
	// Installed is the inventory of the management cluster.
	Installed []Provider
	own       ownRepositories
	binaries  map[string]string
	allow     func(ctx context.Context, binaries map[string]string) (done func(), err error)
	// named identifies the management cluster in commands that the user sees. It is empty for this machine's plane.
	named upstream.Kubeconfig
	// ports are the ports that this client has assigned to processes, by provider label. They are recorded here because
	// one command reads all components before it installs any.
	ports map[string][]int
}

// Template returns the infrastructure provider whose cluster templates are used without a management cluster: Capstan,
// from the user's configuration or else from this binary.
func (c *Client) Template() string {
	if own := c.own[capstan]; own != nil {
		return capstan.name + ":" + own.version
	}
	return capstan.name
}

// Provider is a provider in the inventory of a management cluster.
type Provider struct {
	// Name is clusterctl's name, such as kubeadm. Together with Type it identifies the provider.
	Name string
	Type clusterctlv1.ProviderType
	// Namespace and Version are those in the inventory.
	Namespace, Version string
	// Embedded reports whether the provider is built into an embedded plane.
	Embedded bool
}

// Label returns the name that clusterctl uses where the type is not clear, such as bootstrap-kubeadm.
func (p Provider) Label() string { return clusterctlv1.ManifestLabel(p.Name, p.Type) }

// Open creates a client. It fails if the kubeconfig exists and the management cluster does not answer.
func Open(ctx context.Context, o Options) (*Client, error) {
	c := &Client{binaries: o.Binaries, allow: o.Allow, ports: map[string][]int{}}
	switch _, err := os.Stat(o.Kubeconfig); {
	case err == nil:
		c.Kubeconfig = upstream.Kubeconfig{Path: o.Kubeconfig, Context: o.Context}
		c.named = c.Kubeconfig
		if c.Installed, err = installed(ctx, c.Kubeconfig); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("looking for the kubeconfig: %w", err)
	}
	settings, err := config.New(ctx, o.Config)
	if err != nil {
		return nil, fmt.Errorf("reading clusterctl's configuration: %w", err)
	}
	own, err := newOwnRepositories(c.Installed, settings, o.Version)
	if err != nil {
		return nil, err
	}
	plain := settings
	c.own, settings = own, configuration{settings, own}
	c.Client, err = upstream.New(ctx, "", upstream.InjectConfig(settings),
		upstream.InjectRepositoryFactory(func(ctx context.Context,
			in upstream.RepositoryClientFactoryInput) (repository.Client, error) {
			return c.repository(ctx, in.Provider, settings, repository.InjectYamlProcessor(in.Processor))
		}),
		upstream.InjectClusterClientFactory(func(in upstream.ClusterClientFactoryInput) (cluster.Client, error) {
			if !c.Embedded() {
				// The repository in this binary has no components, so upgrades use only the user's configuration.
				return cluster.New(cluster.Kubeconfig(in.Kubeconfig), plain, cluster.InjectYamlProcessor(in.Processor)), nil
			}
			all := cluster.New(cluster.Kubeconfig(in.Kubeconfig), settings, cluster.InjectYamlProcessor(in.Processor),
				cluster.InjectRepositoryFactory(c.repository))
			return withoutCertManager{all}, nil
		}))
	if err != nil {
		return nil, fmt.Errorf("setting up clusterctl: %w", err)
	}
	return c, nil
}

// Embedded reports whether the management cluster is an embedded plane.
func (c *Client) Embedded() bool {
	for _, p := range c.Installed {
		if p.Embedded {
			return true
		}
	}
	return false
}

// installed reads the inventory of a management cluster.
func installed(ctx context.Context, kubeconfig upstream.Kubeconfig) ([]Provider, error) {
	c, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list := &clusterctlv1.ProviderList{}
	if err := c.List(ctx, list); err != nil && !noMatch(err) {
		return nil, fmt.Errorf("reading the inventory of the management cluster: %w", err)
	}
	var all []Provider
	for i := range list.Items {
		p := &list.Items[i]
		_, embedded := p.Annotations[embeddedMark]
		all = append(all, Provider{
			Name: p.ProviderName, Type: p.GetProviderType(), Namespace: p.Namespace, Version: p.Version, Embedded: embedded,
		})
	}
	return all, nil
}

// connect returns a plain client for a management cluster.
func connect(kubeconfig upstream.Kubeconfig) (client.Client, error) {
	settings, err := restConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), clusterctlv1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(settings, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return c, nil
}

// Namespace returns the namespace of a kubeconfig's context, or default if it sets none.
func Namespace(kubeconfig upstream.Kubeconfig) (string, error) {
	namespace, _, err := load(kubeconfig).Namespace()
	if err != nil {
		return "", fmt.Errorf("reading kubeconfig %s: %w", kubeconfig.Path, err)
	}
	return namespace, nil
}

// errNoNamespace rejects an empty namespace, which would mean all namespaces.
var errNoNamespace = errors.New("no namespace is named")

func load(kubeconfig upstream.Kubeconfig) clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig.Path},
		&clientcmd.ConfigOverrides{CurrentContext: kubeconfig.Context})
}

func restConfig(kubeconfig upstream.Kubeconfig) (*rest.Config, error) {
	settings, err := load(kubeconfig).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfig.Path, err)
	}
	settings.Timeout = answerTimeout
	return settings, nil
}
