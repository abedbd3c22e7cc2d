package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/config/admission"
)

// sentinel is a policy that refuses one ConfigMap. It is created last: when it is in effect, so are the others.
const sentinel = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: zz-test-sentinel}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "object.metadata.name != 'zz-test-sentinel'"}]
`

const sentinelBinding = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: zz-test-sentinel}
spec: {policyName: zz-test-sentinel, validationActions: [Deny]}
`

// Admit installs Capstan's admission policies on the API server that config reaches, and returns when they are in
// effect.
func Admit(config *rest.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	documents, err := admission.Documents()
	if err != nil {
		return err
	}
	for _, document := range append(documents, []byte(sentinel), []byte(sentinelBinding)) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return fmt.Errorf("reading an admission policy: %w", err)
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	for {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "zz-test-sentinel"}}
		err := c.Create(ctx, probe, client.DryRunAll)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("waiting for the admission policies: %w", err)
		}
		select {
		case <-ctx.Done():
			return errors.New("the admission policies have not taken effect")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
