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

// development is the version of a binary that is no release.
const development = "v0.1.0-dev"

// Version returns a version as clusterctl's inventory takes it: text if it is a semantic version that begins with v,
// else one that says that this is no release.
func Version(text string) string {
	if v, err := version.ParseSemantic(text); err != nil || "v"+v.String() != text {
		return development
	}
	return text
}

// identity is what clusterctl tells providers apart by.
type identity struct {
	name string
	kind clusterctlv1.ProviderType
}

// ownRepositories are the repositories in this binary: one for each provider of an embedded plane, with the version
// that runs there and no other; elsewhere that of Capstan's cluster templates alone, if the user's configuration has no
// repository of Capstan.
type ownRepositories map[identity]*ownRepository

// ownRepository has one version.
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
			return nil, fmt.Errorf("the inventory has %s %s at version %q, which is not semantic: end and start the plane "+
				"with this version of capstan: %w", id.kind, id.name, text, err)
		}
		own[id] = &ownRepository{repository.NewMemoryRepository().WithPaths("", "components.yaml").WithMetadata(text,
			&clusterctlv1.Metadata{
				// An embedded plane has all providers at the same contract, as they are parts of one program.
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

// open returns a client of the repository of a provider: the one in this binary, or where the configuration says.
func (r ownRepositories) open(ctx context.Context, p config.Provider, settings config.Client,
	options ...repository.Option) (repository.Client, error) {
	if own, ok := r[identity{p.Name(), p.Type()}]; ok {
		options = append(options, repository.InjectRepository(own))
	}
	return repository.New(ctx, p, settings, options...)
}

// configuration is clusterctl's, in which our own providers are known.
type configuration struct {
	config.Client
	own ownRepositories
}

// Providers returns those of the configuration; for our own it doesn't matter whether they are there.
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

// withoutCertManager is a management cluster in which nothing needs cert-manager: the plane has its own certificates.
type withoutCertManager struct{ cluster.Client }

// CertManager returns one that has nothing to do.
func (withoutCertManager) CertManager() cluster.CertManagerClient { return noCertManager{} }

type noCertManager struct{}

func (noCertManager) EnsureInstalled(context.Context) error     { return nil }
func (noCertManager) EnsureLatestVersion(context.Context) error { return nil }
func (noCertManager) Images(context.Context) ([]string, error)  { return nil, nil }
func (noCertManager) PlanUpgrade(context.Context) (cluster.CertManagerUpgradePlan, error) {
	return cluster.CertManagerUpgradePlan{ExternallyManaged: true}, nil
}

// noMatch reports whether a kind is not defined at all.
func noMatch(err error) bool { return meta.IsNoMatchError(err) }
