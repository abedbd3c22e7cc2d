package extensionconfig

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Validator rejects ExtensionConfigs that can't work, in their admission webhook, and warns of what will stop working
// one day. It runs after Cluster API's own webhook.
type Validator struct {
	// Next is called first. Default: nothing.
	Next admission.Validator[*runtimev1.ExtensionConfig]
	// Catalog of hooks, which knows the deprecated versions. Default: that of Cluster API.
	Catalog *hook.Catalog
}

var _ admission.Validator[*runtimev1.ExtensionConfig] = (*Validator)(nil)

// ValidateCreate implements admission.Validator.
func (v *Validator) ValidateCreate(ctx context.Context, config *runtimev1.ExtensionConfig) (admission.Warnings, error) {
	var warnings admission.Warnings
	if v.Next != nil {
		var err error
		if warnings, err = v.Next.ValidateCreate(ctx, config); err != nil {
			return warnings, err
		}
	}
	return append(warnings, v.warnings(config)...), invalid(config)
}

// ValidateUpdate implements admission.Validator.
func (v *Validator) ValidateUpdate(ctx context.Context,
	before, config *runtimev1.ExtensionConfig) (admission.Warnings, error) {
	if !config.DeletionTimestamp.IsZero() {
		return nil, nil // an object that can't work must still be deletable
	}
	var warnings admission.Warnings
	if v.Next != nil {
		var err error
		if warnings, err = v.Next.ValidateUpdate(ctx, before, config); err != nil {
			return warnings, err
		}
	}
	return append(warnings, v.warnings(config)...), invalid(config)
}

// ValidateDelete implements admission.Validator.
func (v *Validator) ValidateDelete(ctx context.Context, config *runtimev1.ExtensionConfig) (admission.Warnings, error) {
	if v.Next == nil {
		return nil, nil
	}
	return v.Next.ValidateDelete(ctx, config)
}

func invalid(config *runtimev1.ExtensionConfig) error {
	err := Check(config)
	if err == nil {
		return nil
	}
	return apierrors.NewInvalid(runtimev1.GroupVersion.WithKind("ExtensionConfig").GroupKind(), config.Name,
		field.ErrorList{field.Forbidden(field.NewPath("spec"), err.Error())})
}

// warnings returns warnings for the person who applies the object. Handlers are known only after the first discovery.
func (v *Validator) warnings(config *runtimev1.ExtensionConfig) admission.Warnings {
	catalog := v.Catalog
	if catalog == nil {
		catalog = hook.ClusterAPI()
	}
	var warnings admission.Warnings
	for _, about := range deprecated(catalog, config.Status.Handlers) {
		warnings = append(warnings, "handler "+about+": ask the extension's author for a newer version")
	}
	if len(config.Status.Handlers) > 0 {
		if unused := unusedOverrides(config); len(unused) > 0 {
			warnings = append(warnings, fmt.Sprintf("annotations are for handlers that the extension does not have: %s",
				strings.Join(unused, ", ")))
		}
	}
	if _, injected := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]; !injected &&
		len(config.Spec.ClientConfig.CABundle) == 0 {
		warnings = append(warnings,
			fmt.Sprintf("neither spec.clientConfig.caBundle nor annotation %s is set: the extension needs a certificate of a "+
				"CA that the management cluster's host trusts", runtimev1.InjectCAFromSecretAnnotation))
	}
	if service := serviceOf(config.Spec.ClientConfig.URL); service != "" {
		warnings = append(warnings, fmt.Sprintf("spec.clientConfig.url leads to %s, a Service of this cluster: "+
			"name it in spec.clientConfig.service, the URL is for servers outside (RC-05)", service))
	}
	return warnings
}

// serviceOf returns the host of a URL if it is the name of a Service in the cluster.
func serviceOf(text string) string {
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	host := strings.ToLower(strings.TrimSuffix(parsed.Hostname(), "."))
	short := strings.TrimSuffix(host, ".cluster.local")
	if !strings.HasSuffix(short, ".svc") || strings.Count(short, ".") != 2 {
		return ""
	}
	return host
}
