package clusterctl

import (
	"context"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/config"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"

	"github.com/capstan-dev/capstan/templates"
)

// ProviderName is Capstan's name as a provider.
const ProviderName = "capstan"

// development is the version of a binary that is not a release.
const development = "v0.1.0-dev"

// Version returns a version that clusterctl's inventory accepts: text if it is a semantic version that begins with v,
// else a development version.
func Version(text string) string {
	if v, err := version.ParseSemantic(text); err != nil || "v"+v.String() != text {
		return development
	}
	return text
}

// identity identifies a provider, as in clusterctl.
type identity struct {
	name string
	kind clusterctlv1.ProviderType
}

// ownRepositories are the repositories in this binary. For an embedded plane there is one for each of its providers,
// with only the version that runs there. For any other management cluster there is only one, with Capstan's cluster
// templates. It is omitted if the user's configuration has a repository of Capstan.
type ownRepositories map[identity]*ownRepository

// ownRepository has a single version.
type ownRepository struct {
	*repository.MemoryRepository
	version string
}

// capstan is our own provider.
var capstan = identity{ProviderName, clusterctlv1.InfrastructureProviderType}

func newOwnRepositories(installed []Provider, settings config.Client, binary string) (ownRepositories, error) {
	versions := map[identity]string{}
	for _, p := range installed {
		if p.Embedded {
			versions[identity{p.Name, p.Type}] = p.Version
		}
	}
	if len(versions) == 0 {
		if _, err := settings.Providers().Get(capstan.name, capstan.kind); err == nil {
			return ownRepositories{}, nil
		}
		versions[capstan] = Version(binary)
	}
	own := ownRepositories{}
	for id, text := range versions {
		v, err := version.ParseSemantic(text)
		if err != nil {
			return nil, fmt.Errorf("the inventory has %s %s at version %q, which is not a semantic version: restart the plane "+
				"with this version of capstan: %w", id.kind, id.name, text, err)
		}
		own[id] = &ownRepository{repository.NewMemoryRepository().WithPaths("", "components.yaml").WithMetadata(text,
			&clusterctlv1.Metadata{
				// All providers of an embedded plane have the same contract, as they are parts of one program.
				ReleaseSeries: []clusterctlv1.ReleaseSeries{
					{Major: int32(v.Major()), Minor: int32(v.Minor()), Contract: clusterv1.GroupVersion.Version},
				},
			}), text}
	}
	if own[capstan] == nil {
		return own, nil
	}
	return own, own[capstan].addTemplates()
}

// addTemplates adds Capstan's cluster templates and ClusterClasses.
func (r *ownRepository) addTemplates() error {
	names, err := fs.Glob(templates.Files, "*.yaml")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := templates.Files.ReadFile(name)
		if err != nil {
			return err
		}
		r.WithFile(r.version, name, text)
	}
	return nil
}

// open returns a client for a provider's repository: the one in this binary, or else the one in the configuration.
func (r ownRepositories) open(ctx context.Context, p config.Provider, settings config.Client,
	options ...repository.Option) (repository.Client, error) {
	if own, ok := r[identity{p.Name(), p.Type()}]; ok {
		options = append(options, repository.InjectRepository(own))
	}
	return repository.New(ctx, p, settings, options...)
}

// configuration is clusterctl's configuration, extended by our own providers.
type configuration struct {
	config.Client
	own ownRepositories
}

// Providers returns the configured providers. Our own providers need not be among them, because Get finds them.
func (c configuration) Providers() config.ProvidersClient {
	return providers{c.Client.Providers(), c.own}
}

type providers struct {
	config.ProvidersClient
	own ownRepositories
}

// Get finds a provider.
func (p providers) Get(name string, kind clusterctlv1.ProviderType) (config.Provider, error) {
	if _, ok := p.own[identity{name, kind}]; ok {
		return config.NewProvider(name, "https://in-this-binary/components.yaml", kind), nil
	}
	return p.ProvidersClient.Get(name, kind)
}

// withoutCertManager is a management cluster that does not need cert-manager, because the plane has certificates of its
// own.
type withoutCertManager struct{ cluster.Client }

// CertManager returns a client that does nothing.
func (withoutCertManager) CertManager() cluster.CertManagerClient { return noCertManager{} }

type noCertManager struct{}

func (noCertManager) EnsureInstalled(context.Context) error     { return nil }
func (noCertManager) EnsureLatestVersion(context.Context) error { return nil }
func (noCertManager) Images(context.Context) ([]string, error)  { return nil, nil }
func (noCertManager) PlanUpgrade(context.Context) (cluster.CertManagerUpgradePlan, error) {
	return cluster.CertManagerUpgradePlan{ExternallyManaged: true}, nil
}

// noMatch reports whether an error means that a kind is not defined.
func noMatch(err error) bool { return meta.IsNoMatchError(err) }
