package podless

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
)

// components reads the provider in testdata and changes it.
func components(t *testing.T, replace ...string) []unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("testdata/provider.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(string(text), replace[i]) {
			t.Fatalf("%q is not in the provider", replace[i])
		}
		text = []byte(strings.ReplaceAll(string(text), replace[i], replace[i+1]))
	}
	objects, err := utilyaml.ToUnstructured(text)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the only object of a kind.
func find(t *testing.T, objects []unstructured.Unstructured, kind string) unstructured.Unstructured {
	t.Helper()
	var found []unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d objects of kind %s", len(found), kind)
	}
	return found[0]
}

func text(o unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, fields...)
	return s
}

func container(o unstructured.Unstructured) map[string]any {
	all, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	return all[0].(map[string]any)
}

func args(o unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedStringSlice(container(o), "args")
	return list
}

func TestRewrite(t *testing.T) {
	given := components(t)
	var before []unstructured.Unstructured
	for _, o := range given {
		before = append(before, *o.DeepCopy())
	}
	out, ports, err := Rewrite(given, Options{Binary: "/opt/x", Taken: []int{9500, 9502}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ports, []int{9501, 9503, 9504}) {
		t.Errorf("the ports are %v", ports)
	}
	if !reflect.DeepEqual(given, before) {
		t.Error("Rewrite has changed the objects that it was given")
	}
	var kinds []string
	for _, o := range out {
		kinds = append(kinds, o.GetKind())
	}
	want := "Namespace Secret ServiceAccount CustomResourceDefinition ValidatingWebhookConfiguration ExtensionConfig " +
		"Service Deployment"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("the kinds are\n%s, want\n%s", got, want)
	}

	d := find(t, out, "Deployment")
	if d.GetAnnotations()[BinaryAnnotation] != "/opt/x" {
		t.Errorf("annotations: %v", d.GetAnnotations())
	}
	// The container's ports are, in this order, webhooks 9443, health 9440 and metrics 8443. Ports 9500 and 9502 are
	// taken.
	wantArgs := []string{
		"--leader-elect=false", "--diagnostics-address=127.0.0.1:9504", "--insecure-diagnostics=false",
		"--feature-gates=A=true", "--upstream-address=192.0.2.1:443",
		"--webhook-port=9501", "--webhook-cert-dir=/tmp/certs", "--health-addr=127.0.0.1:9503",
	}
	if got := args(d); !slices.Equal(got, wantArgs) {
		t.Errorf("the arguments are\n%q, want\n%q", got, wantArgs)
	}

	secret := find(t, out, "Secret")
	if secret.GetLabels()["cluster.x-k8s.io/provider"] != "infrastructure-x" || secret.GetNamespace() != "x-system" ||
		secret.GetName() != "x-cert" {
		t.Errorf("the Secret is %v", secret.Object["metadata"])
	}
	hooks, _, _ := unstructured.NestedSlice(find(t, out, "ValidatingWebhookConfiguration").Object, "webhooks")
	config := hooks[0].(map[string]any)["clientConfig"].(map[string]any)
	if config["url"] != "https://127.0.0.1:9501/validate-x" || config["service"] != nil ||
		config["caBundle"] != text(secret, "data", "ca.crt") {
		t.Errorf("the client configuration of the webhook is %v", config)
	}
	crd := find(t, out, "CustomResourceDefinition")
	conversion := []string{"spec", "conversion", "webhook", "clientConfig"}
	if text(crd, append(conversion, "url")...) != "https://127.0.0.1:9501/convert" ||
		text(crd, append(conversion, "caBundle")...) != text(secret, "data", "ca.crt") || len(crd.GetAnnotations()) > 0 {
		t.Errorf("the definition is %v", crd.Object)
	}
	extension := find(t, out, "ExtensionConfig")
	if text(extension, "spec", "clientConfig", "url") != "https://127.0.0.1:9501/" ||
		extension.GetAnnotations()["runtime.cluster.x-k8s.io/inject-ca-from-secret"] != "x-system/x-cert" {
		t.Errorf("the ExtensionConfig is %v", extension.Object)
	}
	verify(t, secret)
}

// verify checks that the CA in a Secret signed the certificate there, for 127.0.0.1.
func verify(t *testing.T, secret unstructured.Unstructured) {
	t.Helper()
	file := func(name string) []byte {
		data, err := base64.StdEncoding.DecodeString(text(secret, "data", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	pair, err := tls.X509KeyPair(file("tls.crt"), file("tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(file("ca.crt"))
	for _, host := range []string{"127.0.0.1", "x-webhook.x-system.svc"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: authorities}); err != nil {
			t.Errorf("the certificate is not valid for %s: %v", host, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: "192.0.2.1", Roots: authorities}); err == nil {
		t.Error("the certificate is valid for another machine")
	}
}

func TestFlags(t *testing.T) {
	for name, c := range map[string]struct {
		replace []string
		want    string // an argument
	}{
		"a port in the arguments is replaced": {[]string{"- --insecure-diagnostics=false", "- --webhook-port=9443"},
			"--webhook-port=9500"},
		"an address for health is replaced": {
			[]string{"- --insecure-diagnostics=false", "- --health-probe-bind-address=:9440"},
			"--health-probe-bind-address=127.0.0.1:9501",
		},
		"an address whose port the container does not declare is replaced": {
			[]string{"- --insecure-diagnostics=false", "- --profiler-address=localhost:6060"},
			"--profiler-address=127.0.0.1:9503",
		},
		"kubebuilder's leader election is off": {[]string{"- --leader-elect", "- --enable-leader-election=true"},
			"--enable-leader-election=false"},
		"an address that switches a server off stays": {[]string{":8443", "0"}, "--diagnostics-address=0"},
		"a given directory for certificates stays": {
			[]string{"- --insecure-diagnostics=false", "- --webhook-cert-dir=/tmp/certs/"}, "--webhook-cert-dir=/tmp/certs/",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := Rewrite(components(t, c.replace...), Options{Binary: "/opt/x"})
			if err != nil {
				t.Fatal(err)
			}
			got := args(find(t, out, "Deployment"))
			flag, _, _ := strings.Cut(c.want, "=")
			if n := len(slices.DeleteFunc(slices.Clone(got),
				func(a string) bool { return !strings.HasPrefix(a, flag+"=") })); n != 1 || !slices.Contains(got, c.want) {
				t.Errorf("want %q in %q, where its flag occurs %d times", c.want, got, n)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	const volume = "secret: {secretName: x-cert}"
	for name, c := range map[string]struct {
		replace []string
		want    string
	}{
		"no Deployment": {[]string{"kind: Deployment", "kind: ConfigMap"}, "no Deployment"},
		"two Deployments": {[]string{"kind: ServiceAccount", "kind: Deployment"},
			"more than one Deployment, x-system/x-manager and x-system/x-controller"},
		"another kind that runs containers": {[]string{"kind: ServiceAccount", "kind: DaemonSet"},
			"DaemonSet x-system/x-manager"},
		"another kind of object of cert-manager": {[]string{"kind: Issuer", "kind: CertificateRequest"},
			"CertificateRequest x-system/x-issuer needs cert-manager"},
		"a Certificate that is an authority": {[]string{"secretName: x-cert\n", "secretName: x-cert\n  isCA: true\n"},
			"Certificate x-system/x-serving"},
		"a second container": {[]string{"- name: manager", "- name: proxy\n        - name: manager"},
			"2 containers (proxy, manager)"},
		"an init container": {[]string{"containers:", "initContainers: [{name: first}]\n      containers:"},
			"init container first"},
		"a token as a volume":          {[]string{volume, "projected: {}"}, "has volume certs"},
		"a hostPath mounted elsewhere": {[]string{volume, "hostPath: {path: /var/lib}"}, "has volume certs"},
		"a subPath of a volume": {[]string{"mountPath: /tmp/certs", "mountPath: /tmp/certs, subPath: a"},
			"a part of volume certs"},
		"an environment from a ConfigMap": {
			[]string{"- name: manager", "- name: manager\n          envFrom: [{configMapRef: {name: x}}]"}, "envFrom",
		},
		"a variable with the Pod's memory limit": {
			[]string{"fieldRef: {fieldPath: metadata.uid}", "resourceFieldRef: {resource: limits.memory}"}, "variable POD_UID",
		},
		"a Service that does not exist": {
			[]string{"service: {name: x-webhook, namespace: x-system, path: /validate-x}",
				"service: {name: other, namespace: x-system}"},
			"ValidatingWebhookConfiguration x: it calls Service x-system/other",
		},
		"a port that the Service lacks":   {[]string{"path: /validate-x", "port: 444"}, "no port 444"},
		"a port that the container lacks": {[]string{"targetPort: webhooks", "targetPort: 1"}, "leads to port 1"},
		"a webhook without a Certificate": {[]string{"cert-manager.io/inject-ca-from: x-system/x-serving", "a: b"},
			"no Certificate in the components provides its CA"},
		"all errors, not only the first": {[]string{"kind: ServiceAccount", "kind: Job", "kind: Issuer", "kind: Order"},
			"Job x-system/x-manager would run containers, and only a Deployment can be a process\nOrder x-system/x-issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := Rewrite(components(t, c.replace...), Options{Binary: "/opt/x"}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, _, err := Rewrite(components(t, volume, "hostPath: {path: /tmp/certs/}"),
		Options{Binary: "/opt/x"}); err != nil {
		t.Errorf("a hostPath mounted at the same path: %v", err)
	}
}
