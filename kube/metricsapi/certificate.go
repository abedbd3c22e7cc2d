package metricsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

const (
	// serviceName is the name by which the API server calls this server.
	serviceName = Name + "." + Namespace + ".svc"
	publishEach = time.Second
)

// makeCertificate creates a certificate that is valid for a year. It exists only in memory: a restarted pod creates
// another one. authority is the certificate that signed it.
func makeCertificate() (
	served dynamiccertificates.CertKeyContentProvider, authority []byte, err error,
) {
	cert, key, err := certutil.GenerateSelfSignedCertKey(serviceName, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate: %w", err)
	}
	served, err = dynamiccertificates.NewStaticCertKeyContent("serving", cert, key)
	if err != nil {
		return nil, nil, fmt.Errorf("making a certificate: %w", err)
	}
	return served, cert, nil
}

// publish tells the API server which authority to trust for this API. It retries until ctx ends, except if
// the request is forbidden or the APIService does not exist.
func publish(ctx context.Context, api clientset.Interface, authority []byte) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"caBundle": authority}})
	if err != nil {
		return fmt.Errorf("describing the API's authority: %w", err)
	}
	for {
		_, err := api.ApiregistrationV1().APIServices().Patch(ctx, apiService, types.MergePatchType, patch,
			metav1.PatchOptions{})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			return fmt.Errorf("publishing the API's authority: %w", err)
		}
		klog.FromContext(ctx).Error(err, "publishing the API's authority")
		if err := wait(ctx, publishEach); err != nil {
			return err
		}
	}
}
