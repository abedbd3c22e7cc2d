package extensionconfig

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// authorityKey is the key of a Secret that holds the CA certificate.
const authorityKey = "ca.crt"

// authority returns the CA certificates that the annotation refers to, nil if there is no annotation.
func authority(ctx context.Context, reader ctrlclient.Reader, config *runtimev1.ExtensionConfig) ([]byte, error) {
	name, ok := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]
	if !ok {
		return nil, nil
	}
	key, err := secretKey(name)
	if err != nil {
		return nil, err
	}
	var secret corev1.Secret
	if err := reader.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the Secret %s that annotation %s names does not exist: create it, or correct the annotation",
			key, runtimev1.InjectCAFromSecretAnnotation)
	} else if err != nil {
		return nil, fmt.Errorf("reading the Secret %s that annotation %s names: %w", key,
			runtimev1.InjectCAFromSecretAnnotation, err)
	}
	bundle := secret.Data[authorityKey]
	if len(bundle) == 0 {
		return nil, fmt.Errorf("the Secret %s has no key %q: put the certificate of the CA there, in PEM form", key,
			authorityKey)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("the key %q of the Secret %s holds no certificate in PEM form", authorityKey, key)
	}
	return bundle, nil
}

func secretKey(name string) (types.NamespacedName, error) {
	namespace, secret, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || secret == "" || strings.Contains(secret, "/") {
		return types.NamespacedName{}, fmt.Errorf("annotation %s is %q: it must be <namespace>/<name> of a Secret",
			runtimev1.InjectCAFromSecretAnnotation, name)
	}
	return types.NamespacedName{Namespace: namespace, Name: secret}, nil
}

// injectAuthority writes the CA certificates into the spec if they have changed.
func (r *Reconciler) injectAuthority(ctx context.Context, config *runtimev1.ExtensionConfig) error {
	bundle, err := authority(ctx, r.APIReader, config)
	if err != nil || bundle == nil || bytes.Equal(bundle, config.Spec.ClientConfig.CABundle) {
		return err
	}
	// The response to the patch overwrites the whole object including its status, so take only the spec, the
	// generation and the resourceVersion from the response.
	changed := config.DeepCopy()
	changed.Spec.ClientConfig.CABundle = bundle
	if err := r.Client.Patch(ctx, changed, ctrlclient.MergeFrom(config)); err != nil {
		return fmt.Errorf("writing the CA certificate into spec.clientConfig.caBundle: %w", err)
	}
	config.Spec, config.Generation, config.ResourceVersion = changed.Spec, changed.Generation, changed.ResourceVersion
	return nil
}
