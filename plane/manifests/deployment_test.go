package manifests

import (
	"encoding/json"
	"testing"
)

func TestDeploymentsStandForTheProvidersOfTheInventory(t *testing.T) {
	generated(t)
	inventory, err := Inventory("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{} // namespaces by label
	for _, o := range inventory {
		if o.Kind == "Provider" {
			want[o.Name] = o.Namespace
		}
	}
	objects, err := Deployments("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		var d struct {
			Metadata struct {
				Namespace           string
				Labels, Annotations map[string]string
			}
		}
		if err := json.Unmarshal(o.JSON, &d); err != nil {
			t.Fatal(err)
		}
		label := d.Metadata.Labels["cluster.x-k8s.io/provider"]
		if d.Metadata.Namespace != want[label] || d.Metadata.Annotations[EmbeddedAnnotation] == "" {
			t.Errorf("the Deployment %s of provider %q is %s", o.Name, label, o.JSON)
		}
		delete(want, label)
	}
	if len(want) > 0 {
		t.Errorf("providers without a Deployment: %v", want)
	}
}
