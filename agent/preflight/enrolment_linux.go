package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"github.com/capstan-dev/capstan/agent/bundle"
	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/enroll"
	"github.com/capstan-dev/capstan/agent/handover"
	"github.com/capstan-dev/capstan/agent/rest"
	"github.com/capstan-dev/capstan/agent/token"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// askLimit bounds reading the host from the management cluster.
const askLimit = 20 * time.Second

// enrolment reads this computer's CapstanHost, with the agent's own token. It changes nothing, and renews no token: the
// agent does that.
func enrolment() (*Enrolment, error) {
	c, err := config.Read(config.DefaultPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	store := handover.NewStore(c)
	current, err := store.Current()
	if err != nil {
		return nil, err
	}
	if current != nil {
		c = store.Config(current) // the host has moved since the file was written
	}
	tokens, err := token.Open(c.TokenPath(), func() (string, error) { return c.Token, nil })
	if err != nil {
		return nil, err
	}
	client, err := rest.New(c, tokens, "preflight")
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	host, err := client.Look(ctx)
	if err != nil {
		return nil, err
	}
	if host == nil {
		return nil, fmt.Errorf("there is no CapstanHost %s/%s any more", c.Namespace, c.Host)
	}
	e := &Enrolment{
		Host: c.Namespace + "/" + c.Host, Server: c.Server, Bundles: host.Spec.Bundles,
		Probe: func(policy v1beta2.BundlePolicy, version string) error { return probe(c, policy, version) },
	}
	if claim := host.Spec.Claim; claim != nil {
		e.Bundles, e.Kubernetes = claim.Bundles, claim.KubernetesVersion
	}
	return e, nil
}

// probe asks the plane or the mirror of a policy for the bundle of a version.
func probe(c config.Config, policy v1beta2.BundlePolicy, version string) error {
	source := bundle.Choose("", policy)
	if source.NeedsPlane() {
		var err error
		if source.Plane, err = enroll.Plane(c); err != nil {
			return err
		}
	}
	return source.Probe(context.Background(), version, runtime.GOARCH)
}
