//go:build linux

package contract

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// TestObjects creates objects of all kinds in two namespaces under one name, and checks what the API server returns.
func TestObjects(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		here, there := newWorld(t, f, 0), newWorld(t, f, 0)
		here.stop()
		there.stop()
		for _, kind := range kinds {
			for _, w := range []*world{here, there} {
				u := f.newObject(kind)
				u.SetNamespace(w.ns)
				u.SetName("same")
				u.SetLabels(map[string]string{"example.com/l": "1"})
				u.SetAnnotations(map[string]string{"example.com/a": "2"})
				u.SetFinalizers([]string{"example.com/f"})
				u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "1"}})
				if strings.HasSuffix(kind, "Template") {
					u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
				}
				w.create(u)
				back := w.get(kind, "same")
				if back.GetLabels()["example.com/l"] != "1" || back.GetAnnotations()["example.com/a"] != "2" ||
					len(back.GetFinalizers()) != 1 || len(back.GetOwnerReferences()) != 1 {
					t.Errorf("%s lost metadata: it now has %v", kind, back.Object["metadata"])
				}
				list := &unstructured.UnstructuredList{}
				list.SetGroupVersionKind(f.newObject(kind + "List").GroupVersionKind())
				w.must(shared.admin.List(t.Context(), list, client.InNamespace(w.ns)))
				if len(list.Items) != 1 || list.Items[0].GetKind() != kind || list.GetKind() != kind+"List" {
					t.Errorf("the list of %s is a %s with %d items, want a list of this kind with one", kind,
						list.GetKind(), len(list.Items))
				}
			}
			recordObject(here, kind)
		}
		here.Attr("rule", "IC-02 "+string(f.Version))
		f.checkStatusIsASubresource(here)
		f.checkRefused(here)
	})
}

// recordObject records the rules that TestObjects has asserted for one kind: two namespaces can have objects of the
// same name, the API server returns an object with its metadata, and a list contains the object.
func recordObject(w *world, kind string) {
	w.Helper()
	switch kind {
	case "CapstanMachine":
		w.Attr("rule", "IM-05 "+string(w.Version))
		w.Attr("rule", "IM-06 "+string(w.Version))
		w.Attr("rule", "IM-33 "+string(w.Version))
	case "CapstanMachineTemplate":
		w.Attr("rule", "IMT-04 "+string(w.Version))
		w.Attr("rule", "IMT-05 "+string(w.Version))
		w.Attr("rule", "IMT-10 "+string(w.Version))
	case "CapstanCluster":
		w.Attr("rule", "IC-03 "+string(w.Version))
		w.Attr("rule", "IC-15 "+string(w.Version))
	case "CapstanClusterTemplate":
		w.Attr("rule", "ICT-03 "+string(w.Version))
		w.Attr("rule", "ICT-07 "+string(w.Version))
	}
}

// checkRefused writes values that the contract does not allow: an address of an unknown type, and a failure domain
// twice.
func (f form) checkRefused(w *world) {
	w.Helper()
	u := w.get("CapstanMachine", "same")
	unknown := []any{map[string]any{"type": "PostalCode", "address": "x"}}
	w.must(unstructured.SetNestedSlice(u.Object, unknown, "status", "addresses"))
	if err := shared.admin.Status().Update(w.Context(), u); !apierrors.IsInvalid(err) {
		w.Errorf("an address of an unknown type was not refused as invalid: %v", err)
	}
	w.Attr("rule", "IM-28 "+string(w.Version))
	if f.Version == v1beta1 {
		return // v1beta1 has a map, which can't have a name twice
	}
	u = w.get("CapstanCluster", "same")
	twice := []any{map[string]any{"name": "a"}, map[string]any{"name": "a"}}
	w.must(unstructured.SetNestedSlice(u.Object, twice, "status", "failureDomains"))
	if err := shared.admin.Status().Update(w.Context(), u); !apierrors.IsInvalid(err) {
		w.Errorf("a failure domain that is listed twice was not refused as invalid: %v", err)
	}
	w.Attr("rule", "IC-20 v1beta2")
}

// checkStatusIsASubresource checks that writing the object does not change its status, and that writing the status
// changes nothing else.
func (f form) checkStatusIsASubresource(w *world) {
	w.Helper()
	for _, kind := range []string{"CapstanMachine", "CapstanCluster"} {
		path := []string{"status", "initialization", "provisioned"}
		if f.Version == v1beta1 {
			path = []string{"status", "ready"}
		}
		u := w.get(kind, "same")
		w.must(unstructured.SetNestedField(u.Object, true, path...))
		w.must(shared.admin.Update(w.Context(), u))
		if f.flag(w.get(kind, "same")) {
			w.Errorf("a write to %s changed its status (IM-09)", kind)
		}
		u = w.get(kind, "same")
		w.must(unstructured.SetNestedField(u.Object, true, path...))
		u.SetLabels(map[string]string{"example.com/l": "3"})
		w.must(shared.admin.Status().Update(w.Context(), u))
		if u := w.get(kind, "same"); !f.flag(u) || u.GetLabels()["example.com/l"] != "1" {
			w.Errorf("a write to the status of %s gave %v with labels %v", kind, u.Object["status"], u.GetLabels())
		}
	}
	w.Attr("rule", "IM-09 "+string(w.Version))
	w.Attr("rule", "IC-14 "+string(w.Version))
}

// TestTemplatesAreImmutable: a template can't be changed, but the topology controller's dry runs succeed.
func TestTemplatesAreImmutable(t *testing.T) {
	eachVersion(t, func(t *testing.T, f form) {
		w := newWorld(t, f, 0)
		w.stop()
		for kind, spec := range map[string]map[string]any{
			"CapstanMachineTemplate": {"hostSelector": map[string]any{"matchLabels": map[string]any{"disk": "ssd"}}},
			"CapstanClusterTemplate": {"loadBalancer": map[string]any{"type": "Local"}},
		} {
			template := func(spec map[string]any) *unstructured.Unstructured {
				u := f.newObject(kind)
				u.SetNamespace(w.ns)
				u.SetName("x")
				u.Object["spec"] = map[string]any{"template": map[string]any{"spec": spec}}
				return u
			}
			w.create(template(map[string]any{}))
			apply := func(annotations map[string]string, options ...client.ApplyOption) error {
				u := template(spec)
				u.SetAnnotations(annotations)
				options = append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)
				return shared.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), options...)
			}
			if err := apply(nil); !apierrors.IsInvalid(err) {
				t.Errorf("a change of %s was not refused as invalid: %v", kind, err)
			}
			if err := apply(map[string]string{clusterv1.TopologyDryRunAnnotation: ""}, client.DryRunAll); err != nil {
				t.Errorf("a dry run of the topology controller was refused: %v", err)
			}
			if err := apply(map[string]string{clusterv1.TopologyDryRunAnnotation: ""}); !apierrors.IsInvalid(err) {
				t.Errorf("a real change of %s with the dry-run annotation was not refused as invalid: %v", kind, err)
			}
			if err := apply(nil, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("a change of %s in a dry run without the annotation was not refused as invalid: %v", kind, err)
			}
		}
		w.Attr("rule", "IMT-12 "+string(w.Version))
	})
}

// TestRetriesSlowDown makes the creation of an instance fail repeatedly: the pauses between attempts grow.
func TestRetriesSlowDown(t *testing.T) {
	w := newWorld(t, form{v1beta2}, 1)
	w.provisionedCluster("demo")
	const tries = 9
	w.infra.fail("create", tries)
	w.newMachine("w1", machineOptions{})
	var last time.Time
	w.until("all but one try have failed", func() bool { return len(w.infra.made("failed create")) >= tries-1 })
	last = time.Now()
	w.until("the last try has failed", func() bool { return len(w.infra.made("failed create")) >= tries })
	if pause := time.Since(last); pause < 200*time.Millisecond {
		t.Errorf("after %d failures, the next try came after only %v", tries-1, pause)
	}
	w.ready("w1")
	recordBoth(t, "IM-49")
}

// TestAgentsTokensAreShortLived checks the token that a host gets when it is powered on.
func TestAgentsTokensAreShortLived(t *testing.T) {
	w := newWorld(t, form{v1beta2}, 1)
	w.provisionedCluster("demo")
	w.newMachine("w1", machineOptions{})
	w.ready("w1")
	var config []byte
	w.infra.set(func() { config = w.infra.config })
	agent := struct{ Token string }{}
	w.must(yaml.Unmarshal(config, &agent))
	parts := strings.Split(agent.Token, ".")
	if len(parts) != 3 {
		t.Fatal("the agent got no token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	w.must(err)
	claims := struct {
		Exp, Iat int64
		Sub      string
	}{}
	w.must(json.Unmarshal(payload, &claims))
	if life := time.Duration(claims.Exp-claims.Iat) * time.Second; life <= 0 || life > 24*time.Hour {
		t.Errorf("the token is valid for %v, want a day at most", life)
	}
	w.Attr("rule", "SG-03")
	if want := "system:serviceaccount:" + w.ns + ":" + infrav1.IdentityPrefix + "host-01"; claims.Sub != want {
		t.Errorf("the token belongs to %s, want %s", claims.Sub, want)
	}
}
