package release

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
)

// filled returns the objects of a template with these values of variables, and defaults for the others, as clusterctl
// would.
func filled(t *testing.T, template []byte, values map[string]string) []*unstructured.Unstructured {
	t.Helper()
	text, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		if value, ok := values[name]; ok {
			return value, nil
		}
		return "", errors.New("it is not set")
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

// TestValuesThatLookLikeOthers: names and zones stay strings, even if YAML would read them as another type.
func TestValuesThatLookLikeOthers(t *testing.T) {
	text := []string{"name", "clusterName", "host", "failureDomain", "namespace"}
	var check func(file string, value any)
	check = func(file string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, inner := range v {
				if _, ok := inner.(string); !ok && slices.Contains(text, key) {
					t.Errorf("%s: %s is %v, a %T", file, key, inner, inner)
				}
				check(file, inner)
			}
		case []any:
			for _, inner := range v {
				check(file, inner)
			}
		}
	}
	zones := 0
	for file, template := range repository(t, options).in(Infrastructure, options.Version) {
		if !strings.HasPrefix(file, "cluster-template") {
			continue
		}
		for _, o := range filled(t, template, map[string]string{
			"CLUSTER_NAME": "no", "CAPSTAN_ENDPOINT_HOST": "10", "CAPSTAN_ZONE_1": "1", "CAPSTAN_ZONE_2": "1e3",
			"CAPSTAN_ZONE_3":     "true",
			"KUBERNETES_VERSION": "v1.36.3", "CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "1",
			"CAPSTAN_VIP_IMAGE": "registry.example.com:5000/kube-vip:v1",
		}) {
			if check(file, o.Object); o.GetKind() == "Cluster" && o.GetName() != "no" {
				t.Errorf("%s: the Cluster is %q", file, o.GetName())
			}
			if zone, ok, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "failureDomain"); ok &&
				slices.Contains([]string{"1", "1e3", "true"}, zone) {
				zones++
			}
		}
	}
	if zones != 3 {
		t.Errorf("%d MachineDeployments are in the given zones, want 3", zones)
	}
}

// TestPortOfAVirtualAddress: kube-vip forwards nothing, so clients of its address use the port of an API server. Behind
// a load balancer they use the balancer's port.
func TestPortOfAVirtualAddress(t *testing.T) {
	files := repository(t, options).in(Infrastructure, options.Version)
	for file, own := range map[string]bool{
		"cluster-template-vip.yaml": true, "cluster-template-ha.yaml": true, "cluster-template-external.yaml": false,
	} {
		found := 0
		for _, o := range filled(t, files[file], map[string]string{
			"CLUSTER_NAME": "c", "CAPSTAN_ENDPOINT_HOST": "192.0.2.1", "CAPSTAN_ENDPOINT_PORT": "8443",
			"CAPSTAN_VIP_IMAGE":  "kube-vip:v1",
			"KUBERNETES_VERSION": "v1.36.3", "CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "1",
		}) {
			switch o.GetKind() {
			case "CapstanCluster":
				found++
				if port, _, _ := unstructured.NestedNumberAsFloat64(o.Object, "spec", "controlPlaneEndpoint",
					"port"); port != 8443 {
					t.Errorf("%s: the endpoint has port %v", file, port)
				}
			case "KubeadmControlPlane":
				found++
				config := []string{"spec", "kubeadmConfigSpec"}
				init, inits, _ := unstructured.NestedNumberAsFloat64(o.Object,
					append(config, "initConfiguration", "localAPIEndpoint", "bindPort")...)
				join, joins, _ := unstructured.NestedNumberAsFloat64(o.Object,
					append(config, "joinConfiguration", "controlPlane", "localAPIEndpoint", "bindPort")...)
				if inits != own || joins != own || own && (init != 8443 || join != 8443) {
					t.Errorf("%s: API servers listen at %v and %v", file, init, join)
				}
			}
		}
		if found != 2 {
			t.Errorf("%s has %d of the two objects CapstanCluster and KubeadmControlPlane", file, found)
		}
	}
}
