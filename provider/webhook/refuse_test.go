package webhook_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// each runs a test in each API version that implements a contract.
func each(t *testing.T, test func(t *testing.T, version string)) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

// TestImmutable checks what can't change, in both versions. The error must name the field and say what to do instead.
func TestImmutable(t *testing.T) {
	endpoint := map[string]any{"host": "10.0.0.1", "port": int64(6443)}
	for name, c := range map[string]struct {
		kind   string
		spec   map[string]any
		change func(u *unstructured.Unstructured)
		says   []string // none: the change is accepted
	}{
		"the provider id of a machine (IM-10)": {
			"CapstanMachine", map[string]any{"providerID": "p"}, setTo("q", "spec", "providerID"),
			[]string{"spec.providerID can't be changed", "delete the Machine"},
		},
		"removing the provider id of a machine": {
			"CapstanMachine", map[string]any{"providerID": "p"}, without("spec", "providerID"),
			[]string{"spec.providerID can't be changed"},
		},
		"removing the whole spec of a machine": {
			"CapstanMachine", map[string]any{"providerID": "p"}, without("spec"), []string{"spec.providerID can't be changed"},
		},
		"a provider id that is set for the first time": {"CapstanMachine", nil, setTo("p", "spec", "providerID"), nil},
		"the selector of a machine that has no host yet": {
			"CapstanMachine", nil, setTo(map[string]any{"matchLabels": map[string]any{"rack": "a"}}, "spec", "hostSelector"),
			nil,
		},
		"the selector of a machine that has a host": {
			"CapstanMachine", map[string]any{"providerID": "p"},
			setTo(map[string]any{"matchLabels": map[string]any{"rack": "a"}}, "spec", "hostSelector"),
			[]string{"spec.hostSelector can't be changed", "change the template"},
		},
		"the hardware of a machine that has no host yet": {
			"CapstanMachine", nil, setTo(map[string]any{"architecture": "arm64"}, "spec", "hostRequirements"), nil,
		},
		"the hardware of a machine that has a host": {
			"CapstanMachine", map[string]any{"providerID": "p"},
			setTo(map[string]any{"architecture": "arm64"}, "spec", "hostRequirements"),
			[]string{"spec.hostRequirements can't be changed", "change the template"},
		},
		"the endpoint of a cluster": {
			"CapstanCluster", map[string]any{"controlPlaneEndpoint": endpoint},
			setTo("10.0.0.2", "spec", "controlPlaneEndpoint", "host"),
			[]string{"spec.controlPlaneEndpoint can't be changed", "create a new cluster"},
		},
		"the port of the endpoint": {
			"CapstanCluster", map[string]any{"controlPlaneEndpoint": endpoint},
			setTo(int64(443), "spec", "controlPlaneEndpoint", "port"),
			[]string{"spec.controlPlaneEndpoint can't be changed"},
		},
		"removing the endpoint of a cluster": {
			"CapstanCluster", map[string]any{"controlPlaneEndpoint": endpoint}, without("spec", "controlPlaneEndpoint"),
			[]string{"spec.controlPlaneEndpoint can't be changed"},
		},
		"an endpoint that is set for the first time (IC-16)": {"CapstanCluster", nil,
			setTo(endpoint, "spec", "controlPlaneEndpoint"), nil},
		"the balancer of a cluster": {
			"CapstanCluster", map[string]any{"loadBalancer": map[string]any{"type": "Local"}},
			setTo("External", "spec", "loadBalancer", "type"),
			[]string{"spec.loadBalancer.type can't be changed", "create a new cluster"},
		},
		"removing the balancer of a cluster": {
			"CapstanCluster", map[string]any{"loadBalancer": map[string]any{"type": "Local"}}, without("spec", "loadBalancer"),
			[]string{"spec.loadBalancer.type can't be changed"},
		},
		"setting the type of the balancer to its default": {
			"CapstanCluster", nil, setTo(map[string]any{"type": "External"}, "spec", "loadBalancer"), nil,
		},
		"the spec of a machine template": {
			"CapstanMachineTemplate", inTemplate(map[string]any{}),
			setTo(map[string]any{"matchLabels": map[string]any{"a": "b"}}, "spec", "template", "spec", "hostSelector"),
			[]string{"spec.template.spec", "can't be changed", "create a new template"},
		},
		"the metadata of a machine template": {
			"CapstanMachineTemplate", inTemplate(map[string]any{}),
			setTo(map[string]any{"labels": map[string]any{"a": "b"}}, "spec", "template", "metadata"), nil,
		},
		"the spec of a cluster template": {
			"CapstanClusterTemplate", inTemplate(map[string]any{}),
			setTo(map[string]any{"type": "Local"}, "spec", "template", "spec", "loadBalancer"),
			[]string{"spec.template.spec", "can't be changed", "create a new template"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, version string) {
				u := created(t, object(version, c.kind, "immutable", c.spec))
				c.change(u)
				err := live.api.Update(t.Context(), u)
				if len(c.says) == 0 {
					must(t, err)
					return
				}
				refused(t, err, c.says...)
			})
		})
	}
}

func setTo(value any, path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

func without(path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, path...) }
}

func inTemplate(spec map[string]any) map[string]any {
	return map[string]any{"template": map[string]any{"spec": spec}}
}

// TestRules checks the rules between fields, and those that need a library. The error must name the field and the
// remedy.
func TestRules(t *testing.T) {
	long := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		kind, object string
		spec         map[string]any
		says         []string // none: the change is accepted
		only         string   // the version, if not both
	}{
		"an endpoint without port": {
			kind: "CapstanCluster", spec: map[string]any{"controlPlaneEndpoint": map[string]any{"host": "a"}},
			says: []string{"spec.controlPlaneEndpoint", "needs both host and port"},
		},
		"an endpoint without host": {
			kind: "CapstanCluster", spec: map[string]any{"controlPlaneEndpoint": map[string]any{"port": int64(6443)}},
			says: []string{"spec.controlPlaneEndpoint", "needs both host and port"},
		},
		"an endpoint that is a URL": {
			kind: "CapstanCluster", spec: map[string]any{
				"controlPlaneEndpoint": map[string]any{"host": "https://a", "port": int64(6443)},
			},
			says: []string{"spec.controlPlaneEndpoint", "without scheme and path"},
		},
		"an endpoint with an IPv6 address": {
			kind: "CapstanCluster", spec: map[string]any{
				"controlPlaneEndpoint": map[string]any{"host": "fd00::1", "port": int64(6443)},
			},
		},
		"an empty endpoint as old clients write it (D-43)": {
			kind: "CapstanCluster", spec: map[string]any{"controlPlaneEndpoint": map[string]any{"host": "", "port": int64(0)}},
			only: "v1beta1",
		},
		"an invalid port": {
			kind: "CapstanCluster", spec: map[string]any{
				"controlPlaneEndpoint": map[string]any{"host": "a", "port": int64(65536)},
			}, says: []string{"spec.controlPlaneEndpoint", "65535"},
		},
		"no spec at all":         {kind: "CapstanCluster"},
		"a machine without spec": {kind: "CapstanMachine"},
		"a machine whose name is too long for a host": {
			kind: "CapstanMachine", object: long, says: []string{"metadata.name", "63 characters", "shorter name"},
		},
		"a machine whose name just fits": {kind: "CapstanMachine", object: long[:63]},
		"a selector with an impossible operator": {
			kind: "CapstanMachine", spec: map[string]any{
				"hostSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "Near"}}},
			},
			says: []string{"spec.hostSelector.matchExpressions[0].operator", "not a valid selector operator"},
		},
		"a selector with the operator In and no values": {
			kind: "CapstanMachine", spec: map[string]any{
				"hostSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "In"}}},
			},
			says: []string{"spec.hostSelector.matchExpressions[0].values",
				"must be specified when `operator` is 'In' or 'NotIn'"},
		},
		"a selector with an invalid key": {
			kind: "CapstanMachine", spec: map[string]any{
				"hostSelector": map[string]any{"matchLabels": map[string]any{"no key": "x"}},
			},
			says: []string{"spec.hostSelector.matchLabels", "no key"},
		},
		"a template with an invalid key in its selector": {
			kind: "CapstanMachineTemplate",
			spec: inTemplate(map[string]any{"hostSelector": map[string]any{"matchLabels": map[string]any{"no key": "x"}}}),
			says: []string{"spec.template.spec.hostSelector.matchLabels", "no key"},
		},
		"a template whose machines would all have the same provider id": {
			kind: "CapstanMachineTemplate", spec: inTemplate(map[string]any{"providerID": "capstan://default/host-1/12345678"}),
			says: []string{"spec.template.spec", "providerID can't be in a template", "leave it out"},
		},
		"a template with an invalid label": {
			kind: "CapstanMachineTemplate", spec: map[string]any{
				"template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"a": "no value"}}, "spec": map[string]any{},
				},
			},
			says: []string{"spec.template.metadata.labels", "no value"},
		},
		"a cluster template with an invalid annotation": {
			kind: "CapstanClusterTemplate", spec: map[string]any{
				"template": map[string]any{
					"metadata": map[string]any{"annotations": map[string]any{"no key": "x"}}, "spec": map[string]any{},
				},
			},
			says: []string{"spec.template.metadata.annotations", "no key"},
		},
		"a host in a zone that can't be a label": {
			kind: "CapstanHost", spec: map[string]any{"zone": "zone a"}, says: []string{"spec.zone", "value of a label"},
			only: "v1beta2",
		},
		"a host with a name too long for a label": {
			kind: "CapstanHost", object: long, spec: map[string]any{"zone": "a"},
			says: []string{"metadata.name", "63 characters"}, only: "v1beta2",
		},
		"a host without a zone": {kind: "CapstanHost", spec: map[string]any{}, says: []string{"spec.zone"}, only: "v1beta2"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, version string) {
				if c.only != "" && c.only != version {
					t.Skip("not in this version")
				}
				if c.object == "" {
					c.object = "rules"
				}
				err := live.api.Create(t.Context(), object(version, c.kind, c.object, c.spec), client.DryRunAll)
				if len(c.says) == 0 {
					must(t, err)
					return
				}
				refused(t, err, c.says...)
			})
		})
	}
}

// TestTopologyDryRun checks that only the topology controller may try a change of a template with a server-side apply
// dry run (IMT-12).
func TestTopologyDryRun(t *testing.T) {
	for kind, change := range map[string]map[string]any{
		"CapstanMachineTemplate": {"hostSelector": map[string]any{"matchLabels": map[string]any{"rack": "b"}}},
		"CapstanClusterTemplate": {"loadBalancer": map[string]any{"type": "Local"}},
	} {
		t.Run(kind, func(t *testing.T) {
			each(t, func(t *testing.T, version string) {
				made := created(t, object(version, kind, "dry", inTemplate(map[string]any{})))
				apply := func(annotated bool, options ...client.ApplyOption) error {
					u := object(version, kind, "dry", inTemplate(change))
					if annotated {
						u.SetAnnotations(map[string]string{"topology.cluster.x-k8s.io/dry-run": ""})
					}
					return live.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u),
						append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)...)
				}
				must(t, apply(true, client.DryRunAll))
				refused(t, apply(false, client.DryRunAll), "spec.template.spec", "can't be changed")
				refused(t, apply(true), "spec.template.spec", "can't be changed")
				if now := as(t, version, made); now.GetResourceVersion() != made.GetResourceVersion() {
					t.Errorf("a dry run changed the template to %v", now.Object)
				}
				t.Attr("rule", "IMT-12 "+version)
			})
		})
	}
}

// TestManagedByStays checks that a cluster that somebody else manages can't become ours (IC-34).
func TestManagedByStays(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		u := object(version, "CapstanCluster", "managed", nil)
		u.SetAnnotations(map[string]string{"cluster.x-k8s.io/managed-by": "terraform", "other": "x"})
		created(t, u)
		u.SetAnnotations(map[string]string{"cluster.x-k8s.io/managed-by": "pulumi"})
		must(t, live.api.Update(t.Context(), u))
		u.SetAnnotations(nil)
		refused(t, live.api.Update(t.Context(), u), "metadata.annotations[cluster.x-k8s.io/managed-by]",
			"create a new cluster")
	})
}
