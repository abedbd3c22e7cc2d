package patch

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

func TestMakeRoom(t *testing.T) {
	for name, c := range map[string]struct{ foreign, own, left int }{
		"there is room":                    {foreign: 3, own: 2, left: 5},
		"the list is full":                 {foreign: 30, own: 2, left: 32},
		"others have filled the list":      {foreign: 32, own: 5, left: 32},
		"others have added more than fits": {foreign: 90, own: 5, left: 32},
		"the list is empty":                {},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.CapstanHost{}
			var own []string
			add := func(kind string) {
				h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
			}
			for i := range c.foreign {
				add(fmt.Sprint("Foreign", i))
			}
			for i := range c.own {
				own = append(own, fmt.Sprint("Own", i))
				add(own[i])
			}
			MakeRoom(h, own...)
			if len(h.Status.Conditions) != c.left {
				t.Errorf("%d conditions are left, want %d", len(h.Status.Conditions), c.left)
			}
			for _, kind := range own {
				if !conditions.Has(h, kind) {
					t.Errorf("our own condition %s is gone", kind)
				}
			}
		})
	}
}
