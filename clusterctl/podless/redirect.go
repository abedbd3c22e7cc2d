package podless

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Annotations that ask cert-manager to inject a CA into an object. The value names the Certificate or the Secret that
// has the CA.
const (
	injectFromCertificate = "cert-manager.io/inject-ca-from"
	injectFromSecret      = "cert-manager.io/inject-ca-from-secret"
)

// redirect replaces references to a Service in an object with the address of the process.
func (r *rewriter) redirect(o *unstructured.Unstructured, p *program) error {
	var errs []error
	switch o.GetKind() {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), name(o), err)
		}
		for _, hook := range hooks {
			if h, ok := hook.(map[string]any); ok {
				errs = append(errs, r.lead(o, h, p, true))
			}
		}
		errs = append(errs, unstructured.SetNestedSlice(o.Object, hooks, "webhooks"))
	case "CustomResourceDefinition":
		if hook, ok, _ := unstructured.NestedMap(o.Object, "spec", "conversion", "webhook"); ok {
			errs = append(errs, r.lead(o, hook, p, true),
				unstructured.SetNestedMap(o.Object, hook, "spec", "conversion", "webhook"))
		}
	case "ExtensionConfig": // its controller reads the CA from a Secret that an annotation names
		if spec, ok, _ := unstructured.NestedMap(o.Object, "spec"); ok {
			errs = append(errs, r.lead(o, spec, p, false), unstructured.SetNestedMap(o.Object, spec, "spec"))
		}
	}
	if annotations := o.GetAnnotations(); annotations[injectFromCertificate] != "" || annotations[injectFromSecret] != "" {
		delete(annotations, injectFromCertificate)
		delete(annotations, injectFromSecret)
		o.SetAnnotations(annotations)
	}
	return errors.Join(errs...)
}

// lead replaces the Service in parent's clientConfig with a URL and injects the CA. It fails if there is no CA and
// needsAuthority is true.
func (r *rewriter) lead(o *unstructured.Unstructured, parent map[string]any, p *program, needsAuthority bool) error {
	config, _ := parent["clientConfig"].(map[string]any)
	service, ok := config["service"].(map[string]any)
	if !ok {
		return nil
	}
	port, err := r.port(service, p)
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), name(o), err)
	}
	path, _ := service["path"].(string)
	delete(config, "service")
	config["url"] = "https://" + net.JoinHostPort(loopback, strconv.Itoa(port)) + "/" + strings.TrimPrefix(path, "/")
	annotations := o.GetAnnotations()
	authority := r.authorities[annotations[injectFromCertificate]]
	if secret := annotations[injectFromSecret]; secret != "" {
		authority = r.authorities["secret/"+secret]
	}
	if authority != nil {
		config["caBundle"] = base64.StdEncoding.EncodeToString(authority)
	} else if given, _ := config["caBundle"].(string); given == "" && needsAuthority {
		return fmt.Errorf("%s %s calls a Service, but no Certificate in the components provides its CA",
			o.GetKind(), name(o))
	}
	return nil
}

// port returns the process's port behind a Service and records it as the port for webhooks.
func (r *rewriter) port(ref map[string]any, p *program) (int, error) {
	namespace, _ := ref["namespace"].(string)
	called, _ := ref["name"].(string)
	number := int64(443)
	if n, ok := integer(ref["port"]); ok {
		number = n
	}
	for _, s := range r.services {
		if s.GetNamespace() != namespace || s.GetName() != called {
			continue
		}
		for _, port := range portsOf(s) {
			if n, _ := integer(port["port"]); n != number {
				continue
			}
			if chosen := p.serves(target(port)); chosen != 0 {
				return chosen, nil
			}
			return 0, fmt.Errorf("its Service %s/%s leads to port %v, which the Deployment's container doesn't have", namespace,
				called, target(port))
		}
		return 0, fmt.Errorf("its Service %s/%s has no port %d", namespace, called, number)
	}
	return 0, fmt.Errorf("it calls Service %s/%s, which is not in the components", namespace, called)
}

// integer converts a number from decoded YAML or JSON.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case float64:
		return int64(n), true
	}
	return 0, false
}
