package paging

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endless returns pages of three objects and records the requests.
type endless struct {
	client.Reader
	pages int // number of pages; 0 means no end
	asked []string
	err   error
}

func (e *endless) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	e.asked = append(e.asked, options.Namespace+"/"+options.Continue)
	if options.Limit != Size || e.err != nil {
		return errors.Join(e.err)
	}
	list.(*corev1.PodList).Items = make([]corev1.Pod, 3)
	if e.pages == 0 || len(e.asked) < e.pages {
		list.SetContinue("next")
	}
	return nil
}

func TestList(t *testing.T) {
	for name, c := range map[string]struct {
		from  endless
		grows int
		calls string
		want  string
	}{
		"page by page": {endless{pages: 3}, 3, "shop/ shop/next shop/next", ""},
		"too many": {endless{}, maxObjects, "shop/ shop/next",
			"the namespace has more than 10000 Pods: the test counts no more than that"},
		"refused": {endless{err: errors.New("forbidden")}, 3, "shop/", "listing Pods: forbidden"},
		"no such kind": {endless{err: &meta.NoKindMatchError{}}, 3, "shop/",
			"listing Pods: their CRD is not installed in the management cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := 0
			err := List(t.Context(), Source{Reader: &c.from, Namespace: "shop", What: "Pods", By: "the test"},
				func() *corev1.PodList { return &corev1.PodList{} },
				func(list *corev1.PodList) int {
					if len(list.Items) != 3 {
						t.Errorf("a page has %d objects", len(list.Items))
					}
					seen += c.grows
					return seen
				})
			if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if calls := strings.Join(c.from.asked, " "); calls != c.calls {
				t.Errorf("the requests are %s, want %s", calls, c.calls)
			}
		})
	}
}
