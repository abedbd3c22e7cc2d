package podless

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAnExtensionWhoseExtensionConfigComesLater: the extension gets flags for its port and its certificate. Upstream's
// test-extension needs both, because the plane itself uses the extension's default port.
func TestAnExtensionWhoseExtensionConfigComesLater(t *testing.T) {
	const hooks, definitions = "kind: ValidatingWebhookConfiguration", "kind: CustomResourceDefinition"
	alone := []string{
		"kind: ExtensionConfig",
		"kind: ConfigMap",
		hooks,
		"kind: ConfigMap",
		definitions,
		"kind: ConfigMap",
	}
	for name, c := range map[string]struct {
		replace []string
		flags   bool
		target  any // of the Service
	}{
		"a Service that names the port": {alone, true, "webhooks"},
		"a Service with the port's number": {append(alone, "targetPort: webhooks", "targetPort: 9443"), true,
			int64(9500)},
		"a Service that names no target": {append(alone, "{port: 443, targetPort: webhooks}", "{port: 9443}"), true,
			int64(9500)},
		"a Service of another program": {append(alone, "targetPort: webhooks", "targetPort: 1234"), false,
			int64(1234)},
		"a program that has no certificate": {append(alone, "secretName: x-cert}", "secretName: other}"), false,
			"webhooks"},
		"a program whose ExtensionConfig is among the components": {nil, true, "webhooks"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := Rewrite(components(t, c.replace...), Options{Binary: "/opt/x"})
			if err != nil {
				t.Fatal(err)
			}
			got := args(find(t, out, "Deployment"))
			for _, flag := range []string{"--webhook-port=9500", "--webhook-cert-dir=/tmp/certs"} {
				if slices.Contains(got, flag) != c.flags {
					t.Errorf("%s is in %q: %t", flag, got, !c.flags)
				}
			}
			service := find(t, out, "Service")
			ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
			if leads := ports[0].(map[string]any)["targetPort"]; fmt.Sprint(leads) != fmt.Sprint(c.target) {
				t.Errorf("the Service leads to %v, want %v", leads, c.target)
			}
		})
	}
}
