package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/backoff"
	"github.com/capstan-dev/capstan/provider/migration"
	"github.com/capstan-dev/capstan/runtime/certificate"
)

// Names in config/webhook. The Secret has the name that cert-manager would use.
const (
	webhookService       = "capstan-webhook-service"
	webhookSecret        = "capstan-webhook-service-cert"
	webhookConfiguration = "capstan-validating-webhook-configuration"
)

const (
	// injectPeriod is how often to check the objects that refer to the webhooks.
	injectPeriod = time.Minute
	// injectTimeout limits one check.
	injectTimeout = 30 * time.Second
)

// certificates maintains the certificate of the webhooks, for a management cluster without cert-manager, and makes the
// API server trust it. Every replica does this.
type certificates struct {
	*certificate.Keeper
	client client.Client
	kinds  []string // names of the definitions with conversion
}

// ownCertificates makes sure that there is a certificate that the API server trusts. This must happen before the caches
// start, because they may need objects converted.
func ownCertificates(ctx context.Context, config *rest.Config, scheme *runtime.Scheme,
	namespace string) (*certificates, error) {
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client for certificates: %w", err)
	}
	keeper, err := certificate.New(ctx, certificate.InSecret(direct,
		types.NamespacedName{Namespace: namespace, Name: webhookSecret}), certificate.Options{
		Hosts: certificate.ServiceHosts(webhookService, namespace), Name: "capstan-manager",
		Log: slog.New(logr.ToSlogHandler(ctrl.Log.WithName("certificates"))),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the certificate of the webhooks: %w", err)
	}
	c := &certificates{Keeper: keeper, client: direct}
	for object := range migration.Kinds() {
		gvk, err := direct.GroupVersionKindFor(object)
		if err != nil {
			return nil, err
		}
		mapping, err := direct.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("looking for the definition of %s: %w; install the components first", gvk.Kind, err)
		}
		c.kinds = append(c.kinds, mapping.Resource.GroupResource().String())
	}
	return c, c.inject(ctx)
}

// NeedLeaderElection returns false, because every replica serves webhooks.
func (c *certificates) NeedLeaderElection() bool { return false }

// Start maintains the certificate and the trust in it until the context ends.
func (c *certificates) Start(ctx context.Context) error {
	renewed := make(chan error, 1)
	go func() { renewed <- c.Run(ctx) }()
	for backoff.Sleep(ctx, injectPeriod) == nil {
		if err := c.inject(ctx); err != nil && ctx.Err() == nil {
			ctrl.Log.WithName("certificates").Error(err, "The API server may not trust the webhooks; retrying in a minute")
		}
	}
	return <-renewed
}

// inject writes the certificate authorities to where the API server looks for them, unless they are there already.
func (c *certificates) inject(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, injectTimeout)
	defer cancel()
	authorities := c.Authorities()
	var errs []error
	hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	hooks.Name = webhookConfiguration
	errs = append(errs, c.patch(ctx, hooks, func() bool { return trustHooks(hooks, authorities) }))
	for _, name := range c.kinds {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name = name
		errs = append(errs, c.patch(ctx, crd, func() bool { return trustConversion(crd, authorities) }))
	}
	return errors.Join(errs...)
}

// patch reads an object and writes it back if change returns true. It starts again on a conflict.
func (c *certificates) patch(ctx context.Context, object client.Object, change func() bool) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return c.patchOnce(ctx, object, change) })
}

func (c *certificates) patchOnce(ctx context.Context, object client.Object, change func() bool) error {
	if err := c.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return fmt.Errorf("reading where %s is trusted: %w; install the components first", object.GetName(), err)
	}
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok || !change() {
		return nil
	}
	if err := c.client.Patch(ctx, object, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("making the API server trust the webhooks in %s: %w", object.GetName(), err)
	}
	return nil
}

// trustHooks sets the certificate authorities of all webhooks, and reports whether any changed.
func trustHooks(hooks *admissionregistrationv1.ValidatingWebhookConfiguration, authorities []byte) (changed bool) {
	for i := range hooks.Webhooks {
		if to := &hooks.Webhooks[i].ClientConfig.CABundle; !bytes.Equal(*to, authorities) {
			*to, changed = authorities, true
		}
	}
	return changed
}

// trustConversion sets the certificate authorities of a conversion webhook, if there is one, and reports whether they
// changed.
func trustConversion(crd *apiextensionsv1.CustomResourceDefinition, authorities []byte) bool {
	conversion := crd.Spec.Conversion
	if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil ||
		bytes.Equal(conversion.Webhook.ClientConfig.CABundle, authorities) {
		return false
	}
	conversion.Webhook.ClientConfig.CABundle = authorities
	return true
}
