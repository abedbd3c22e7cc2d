package extensionconfig

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/registry"
)

// Check returns everything in an ExtensionConfig that can't work (RC-04 to RC-10), and what it must be instead. It
// makes no calls.
func Check(config *runtimev1.ExtensionConfig) error {
	errs := checkServer(&config.Spec.ClientConfig)
	authority := config.Spec.ClientConfig.CABundle
	if _, injected := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]; !injected && len(authority) > 0 &&
		!x509.NewCertPool().AppendCertsFromPEM(authority) {
		errs = append(errs, errors.New("spec.clientConfig.caBundle holds no certificate in PEM form"))
	}
	if _, err := metav1.LabelSelectorAsSelector(config.Spec.NamespaceSelector); err != nil {
		errs = append(errs, fmt.Errorf("spec.namespaceSelector is not a label selector: %w", err))
	}
	if _, err := registry.ReadOverrides(config.Annotations); err != nil {
		errs = append(errs, err)
	}
	if name, ok := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]; ok {
		if _, err := secretKey(name); err != nil {
			errs = append(errs, err)
		}
	}
	return join(errs)
}

func checkServer(client *runtimev1.ClientConfig) []error {
	switch hasURL, hasService := client.URL != "", client.Service.IsDefined(); {
	case hasURL && hasService:
		return []error{errors.New("spec.clientConfig has both url and service: set one")}
	case hasURL:
		return checkURL(client.URL)
	case hasService:
		return checkService(&client.Service)
	}
	return []error{errors.New("spec.clientConfig has neither url nor service: set one")}
}

// checkURL never quotes the URL, which may contain a password.
func checkURL(text string) []error {
	parsed, err := url.Parse(text)
	if err != nil {
		return []error{errors.New("spec.clientConfig.url is not a URL: it must look like https://host:port/path")}
	}
	var errs []error
	if parsed.Scheme != "https" {
		errs = append(errs, fmt.Errorf("spec.clientConfig.url has the scheme %q: only https is allowed", parsed.Scheme))
	}
	if parsed.Hostname() == "" {
		errs = append(errs, errors.New("spec.clientConfig.url has no host"))
	}
	if parsed.User != nil {
		errs = append(errs,
			errors.New("spec.clientConfig.url has user information: remove it, everybody who may read the ExtensionConfig can "+
				"read it; extensions can ask for a client certificate"))
	}
	if parsed.RawQuery != "" || parsed.Fragment != "" {
		errs = append(errs, errors.New("spec.clientConfig.url must not have a query or a fragment"))
	}
	return errs
}

func checkService(service *runtimev1.ServiceReference) []error {
	var errs []error
	if problems := validation.IsDNS1035Label(service.Name); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("spec.clientConfig.service.name is %q: %s", service.Name, problems[0]))
	}
	if problems := validation.IsDNS1123Label(service.Namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("spec.clientConfig.service.namespace is %q: %s", service.Namespace, problems[0]))
	}
	if service.Path != "" && !strings.HasPrefix(service.Path, "/") {
		errs = append(errs, fmt.Errorf("spec.clientConfig.service.path is %q: it must begin with a slash", service.Path))
	}
	if port := service.Port; port != nil && (*port < 1 || *port > 65535) {
		errs = append(errs, fmt.Errorf("spec.clientConfig.service.port is %d: it must be 1 to 65535", *port))
	}
	return errs
}

// join joins errors in one line, because the text ends up in conditions.
func join(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return errors.New(strings.Join(texts, "; "))
}
