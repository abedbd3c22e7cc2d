package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl/podless"
)

// Request lists providers by type in the form of clusterctl's command line: NAME or NAME:VERSION, and also
// NAMESPACE/NAME:VERSION for upgrades and deletions.
type Request map[clusterctlv1.ProviderType][]string

// Types are all provider types, in clusterctl's order.
var Types = []clusterctlv1.ProviderType{
	clusterctlv1.CoreProviderType, clusterctlv1.BootstrapProviderType, clusterctlv1.ControlPlaneProviderType,
	clusterctlv1.InfrastructureProviderType,
	clusterctlv1.IPAMProviderType, clusterctlv1.RuntimeExtensionProviderType, clusterctlv1.AddonProviderType,
}

// ErrPartOfThePlane reports a provider built into an embedded plane, which cannot be installed, changed or removed by
// itself.
var ErrPartOfThePlane = errors.New("it is a part of the embedded plane, and changes with it: install another version " +
	"of capstan, then run capstan down and capstan up")

// parse splits NAME, NAME:VERSION or NAMESPACE/NAME:VERSION. Upstream validates the parts.
func parse(ref string) (name, version string) {
	if _, after, ok := strings.Cut(ref, "/"); ok {
		ref = after
	}
	name, version, _ = strings.Cut(ref, ":")
	return strings.ToLower(name), version
}

// part returns the provider that ref names if it is built into the plane.
func (c *Client) part(kind clusterctlv1.ProviderType, ref string) (p Provider, ok bool) {
	name, _ := parse(ref)
	i := slices.IndexFunc(c.Installed, func(p Provider) bool { return p.Embedded && p.Type == kind && p.Name == name })
	if i < 0 {
		return p, false
	}
	return c.Installed[i], true
}

// ToInstall returns a request to install without the providers that are built into the plane. It fails if the request
// asks for another version of such a provider, or for a provider that cannot work here. It writes nothing.
func (c *Client) ToInstall(ctx context.Context, request Request, targetNamespace string) (Request, error) {
	left := Request{}
	var errs []error
	for _, kind := range Types {
		for _, ref := range request[kind] {
			p, ok := c.part(kind, ref)
			if _, version := parse(ref); ok && version != "" && version != p.Version {
				errs = append(errs, fmt.Errorf("%s is at %s here, not at %s: %w", p.Label(), p.Version, version, ErrPartOfThePlane))
			}
			if ok && c.binary(p.Name, kind) != "" {
				errs = append(errs,
					fmt.Errorf("%s runs in the plane itself, so a binary would run in addition to it: leave out its "+
						"--provider-binary", p.Label()))
			}
			if ok {
				continue
			}
			left[kind] = append(left[kind], ref)
			if ref == upstream.NoopProvider {
				continue
			}
			if err := c.mayRun(ctx, kind, ref); err != nil {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, c.fits(ctx, kind, ref, targetNamespace))
		}
	}
	return left, errors.Join(errs...)
}

// MayDelete fails if a request names a provider built into the plane.
func (c *Client) MayDelete(request Request) error {
	var errs []error
	for _, kind := range Types {
		for _, ref := range request[kind] {
			if p, ok := c.part(kind, ref); ok {
				errs = append(errs, fmt.Errorf("%s can't be changed alone: %w", p.Label(), ErrPartOfThePlane))
			}
		}
	}
	return errors.Join(errs...)
}

// MayChange fails if a request to upgrade names a provider built into the plane, or a version that cannot work here.
func (c *Client) MayChange(ctx context.Context, request Request) error {
	errs := []error{c.MayDelete(request)}
	for _, kind := range Types {
		for _, ref := range request[kind] {
			name, version := parse(ref)
			if _, ok := c.part(kind, ref); !ok && version != "" {
				errs = append(errs, c.fits(ctx, kind, name+":"+version, ""))
			}
		}
	}
	return errors.Join(errs...)
}

// fits fails if an embedded plane cannot run the components of a provider.
func (c *Client) fits(ctx context.Context, kind clusterctlv1.ProviderType, ref, targetNamespace string) error {
	if !c.Embedded() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout,
		fmt.Errorf("no answer within %s; clusterctl's configuration can name a directory instead", fetchTimeout))
	defer cancel()
	components, err := c.GetProviderComponents(ctx, ref, kind,
		upstream.ComponentsOptions{TargetNamespace: targetNamespace})
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("reading the components of %s %s: %w", kind, ref, err)
	}
	if c.binary(components.Name(), kind) != "" {
		return nil // reading the components has already rewritten them, or failed
	}
	return fit(clusterctlv1.ManifestLabel(components.Name(), kind)+" "+components.Version(), components.Objs())
}

// fetchTimeout limits how long fetching the components of a provider may take. Upstream would retry for minutes.
const fetchTimeout = 30 * time.Second

// fit returns an error that says why the objects of a provider cannot work on an embedded plane, which runs no
// containers and has no cert-manager.
func fit(provider string, objects []unstructured.Unstructured) error {
	var needs []string
	for _, o := range objects {
		switch kind := o.GroupVersionKind(); {
		case slices.Contains(podless.Runners, kind.Kind):
			needs = append(needs, fmt.Sprintf("%s %s/%s", kind.Kind, o.GetNamespace(), o.GetName()))
		case kind.Group == "cert-manager.io":
			needs = append(needs, fmt.Sprintf("cert-manager for its %s %s/%s", kind.Kind, o.GetNamespace(), o.GetName()))
		}
	}
	if len(needs) == 0 {
		return nil
	}
	return fmt.Errorf("%s can't work here: it needs %s, and an embedded plane runs no containers; give the program that "+
		"its image has (--provider-binary), "+
		"or install it in a management cluster that runs containers (--kubeconfig)",
		provider, strings.Join(needs, ", "))
}
