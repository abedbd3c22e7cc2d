package client

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/patch"
)

// doubling is a JSON patch with one copy that doubles the spec.
func doubling(i int) string {
	return fmt.Sprintf(`[{"op":"copy","from":"/spec","path":"/spec/c%d"}]`, i)
}

func TestCheckPatches(t *testing.T) {
	request := &runtimehooksv1.GeneratePatchesRequest{Items: []runtimehooksv1.GeneratePatchesRequestItem{
		{UID: "a", Object: runtime.RawExtension{Raw: []byte(`{"spec":{"x":"` + strings.Repeat("x", 100) + `"}}`)}},
		{UID: "b", Object: runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}},
	}}
	var copies22 []string
	for i := range 22 {
		copies22 = append(copies22, strings.Trim(doubling(i), "[]"))
	}
	large := func(int) string {
		return `[{"op":"add","path":"/spec/y","value":"` + strings.Repeat("y", 1<<20) + `"}]`
	}
	small := func(i int) string { return fmt.Sprintf(`[{"op":"add","path":"/spec/y%d","value":1}]`, i) }
	spread := func(n int, text func(int) string) []string {
		var all []string
		for i := range n {
			all = append(all, text(i))
		}
		return all
	}
	for name, c := range map[string]struct {
		uid     types.UID
		patches []string
		want    string // part of the error; empty: none
	}{
		"a bomb in one patch":    {"a", []string{"[" + strings.Join(copies22, ",") + "]"}, "exceeding the limit"},
		"a bomb in many patches": {"a", spread(22, doubling), "are allowed"},
		"many copies that add little": {"b", spread(patch.MaxCopies+1, func(int) string { return doubling(0) }),
			"copy operations together"},
		"many operations in many patches": {"b", spread(patch.MaxOperations+1, func(int) string {
			return `[{"op":"add","path":"/spec/y","value":1}]`
		}), "operations together"},
		"large patches":    {"b", spread(5, large), "bytes together"},
		"a few copies":     {"a", spread(3, doubling), ""},
		"ordinary patches": {"b", spread(100, small), ""},
		"an object that was not asked about is left to the reconciler": {"z", []string{doubling(1)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := &runtimehooksv1.GeneratePatchesResponse{}
			for _, p := range c.patches {
				answer.Items = append(answer.Items, runtimehooksv1.GeneratePatchesResponseItem{
					UID: c.uid, PatchType: runtimehooksv1.JSONPatchType, Patch: []byte(p),
				})
			}
			err := checkPatches(request, answer)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if err := checkPatches(&runtimehooksv1.BeforeClusterCreateRequest{},
		&runtimehooksv1.BeforeClusterCreateResponse{}); err != nil {
		t.Error(err)
	}
}
