package webhook

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// TestClosedGateRefusesClusterTemplates checks that our webhook behaves like Cluster API's webhook for ClusterClasses.
func TestClosedGateRefusesClusterTemplates(t *testing.T) {
	template := &v1beta2.CapstanClusterTemplate{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	for name, c := range map[string]struct {
		check  clusterTemplates
		refuse bool
	}{
		"the gate is open":   {clusterTemplates{}, false},
		"the gate is closed": {clusterTemplates{closed: true}, true},
	} {
		_, created := c.check.ValidateCreate(t.Context(), template)
		_, updated := c.check.ValidateUpdate(t.Context(), template, template)
		for what, err := range map[string]error{"a new template": created, "a change": updated} {
			if refused := err != nil && strings.Contains(err.Error(),
				"feature gate ClusterTopology is off"); refused != c.refuse {
				t.Errorf("%s: %s is answered with: %v", name, what, err)
			}
		}
	}
	gone, now := template.DeepCopy(), metav1.Now()
	gone.DeletionTimestamp = &now
	if _, err := (clusterTemplates{closed: true}).ValidateUpdate(t.Context(), gone, gone); err != nil {
		t.Errorf("a template that is being deleted can't lose its finalizer: %v", err)
	}
}
