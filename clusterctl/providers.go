package clusterctl

import (
	"context"
	"fmt"
	"time"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Installation describes what to install.
type Installation struct {
	Request Request
	// TargetNamespace is the namespace for the providers. Default: each provider's own.
	TargetNamespace string
	// Wait says whether to wait until the providers work, each for at most WaitTimeout.
	Wait        bool
	WaitTimeout time.Duration
}

// Install installs providers and reports whether it installed any: the providers built into an embedded plane are
// already there.
func (c *Client) Install(ctx context.Context, i Installation) (installed bool, err error) {
	left := i.Request
	if c.Embedded() {
		if left, err = c.ToInstall(ctx, i.Request, i.TargetNamespace); err != nil {
			return false, withUpgrade(err)
		}
		if len(left) == 0 {
			return false, nil
		}
	}
	done, err := c.allowBinaries(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	o := left.install(c.Kubeconfig)
	o.TargetNamespace, o.WaitProviders, o.WaitProviderTimeout = i.TargetNamespace, i.Wait, i.WaitTimeout
	began := time.Now()
	_, err = c.Init(ctx, o)
	return err == nil, endedWait(ctx, err, time.Since(began), i.WaitTimeout)
}

// Images returns the container images that providers need. It installs nothing.
func (c *Client) Images(ctx context.Context, request Request) ([]string, error) {
	return c.InitImages(ctx, request.install(c.Kubeconfig))
}

// allowBinaries asks for permission to run the requested programs.
func (c *Client) allowBinaries(ctx context.Context) (done func(), err error) {
	if len(c.binaries) == 0 || c.allow == nil {
		return func() {}, nil
	}
	return c.allow(ctx, c.binaries)
}

// Upgrade describes what to upgrade: the providers of the Request to their versions, or all providers to the newest
// version of a contract.
type Upgrade struct {
	Request  Request
	Contract string
	// Wait says whether to wait until the providers work, each for at most WaitTimeout.
	Wait        bool
	WaitTimeout time.Duration
}

// Check fails unless exactly one of Request and Contract is set.
func (u Upgrade) Check() error {
	if (u.Contract == "") == (len(u.Request) == 0) {
		return hint.Errorf("see what is available: capstan clusterctl upgrade plan",
			"either name providers with their versions, or --contract")
	}
	return nil
}

// Upgrade upgrades providers.
func (c *Client) Upgrade(ctx context.Context, u Upgrade) error {
	if err := u.Check(); err != nil {
		return err
	}
	if c.Embedded() && u.Contract != "" {
		return fmt.Errorf("--contract would upgrade all providers, of which some can't be upgraded alone: %w",
			ErrPartOfThePlane)
	}
	if err := c.MayChange(ctx, u.Request); err != nil {
		return err
	}
	done, err := c.allowBinaries(ctx)
	if err != nil {
		return err
	}
	defer done()
	o := u.Request.upgrade(c.Kubeconfig)
	o.Contract, o.WaitProviders, o.WaitProviderTimeout = u.Contract, u.Wait, u.WaitTimeout
	began := time.Now()
	return endedWait(ctx, c.ApplyUpgrade(ctx, o), time.Since(began), u.WaitTimeout)
}

// Removal describes what to remove: the providers of the Request, or all.
type Removal struct {
	Request Request
	All     bool
	// Namespaces says to remove the providers' namespaces, Definitions to remove their definitions together with all
	// objects of these kinds.
	Namespaces, Definitions bool
}

// Check fails unless exactly one of Request and All is set.
func (r Removal) Check() error {
	if r.All == (len(r.Request) > 0) {
		return hint.Errorf("for example: capstan clusterctl delete --infrastructure NAME",
			"either name providers, or --all")
	}
	return nil
}

// Remove removes providers.
func (c *Client) Remove(ctx context.Context, r Removal) error {
	if err := r.Check(); err != nil {
		return err
	}
	if c.Embedded() && r.All {
		return hint.Errorf("capstan down --delete removes the plane",
			"--all would remove providers that can't be removed alone: %w", ErrPartOfThePlane)
	}
	if err := c.MayDelete(r.Request); err != nil {
		return err
	}
	o := r.Request.remove(c.Kubeconfig)
	o.DeleteAll, o.IncludeNamespace, o.IncludeCRDs = r.All, r.Namespaces, r.Definitions
	if err := c.Delete(ctx, o); err != nil {
		return fmt.Errorf("removing providers: %w", err)
	}
	return nil
}

// Known is a provider in clusterctl's configuration. Its JSON form is stable.
type Known struct {
	Name string                    `json:"name"`
	Type clusterctlv1.ProviderType `json:"type"`
	URL  string                    `json:"url"`
}

// Known returns the providers in clusterctl's configuration, in its order.
func (c *Client) Known() ([]Known, error) {
	all, err := c.GetProvidersConfig()
	if err != nil {
		return nil, err
	}
	list := make([]Known, 0, len(all))
	for _, p := range all {
		list = append(list, Known{p.Name(), p.Type(), p.URL()})
	}
	return list, nil
}

// Rollouts are the verbs of [Client.Rollout].
var Rollouts = []string{"restart", "pause", "resume"}

// Rollout restarts, pauses or resumes the rollout of KIND/NAME resources in a namespace.
func (c *Client) Rollout(ctx context.Context, verb, namespace string, resources []string) error {
	o := upstream.RolloutRestartOptions{Kubeconfig: c.Kubeconfig, Resources: resources, Namespace: namespace}
	switch verb {
	case "restart":
		return c.RolloutRestart(ctx, o)
	case "pause":
		return c.RolloutPause(ctx, upstream.RolloutPauseOptions(o))
	case "resume":
		return c.RolloutResume(ctx, upstream.RolloutResumeOptions(o))
	}
	return fmt.Errorf("a rollout can't %s: it can restart, pause or resume", verb)
}
