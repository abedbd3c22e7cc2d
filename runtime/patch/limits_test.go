package patch

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// bomb is a JSON patch whose copies double a value repeatedly.
func bomb(copies int) []byte {
	operations := []string{`{"op":"add","path":"/spec","value":{"a":{"x":"` + strings.Repeat("x", 100) + `"}}}`}
	for i := range copies {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/spec/a","path":"/spec/a/c%d"}`, i))
	}
	return []byte("[" + strings.Join(operations, ",") + "]")
}

func TestLimits(t *testing.T) {
	document := []byte(`{"spec":{"a":"b","list":[]}}`)
	for name, c := range map[string]struct {
		kind  runtimehooksv1.PatchType
		patch []byte
		want  string // part of the error; empty: no error
	}{
		"copies that double":        {runtimehooksv1.JSONPatchType, bomb(40), "exceeding the limit"},
		"too many copies":           {runtimehooksv1.JSONPatchType, bomb(MaxCopies + 1), "101 copy operations"},
		"too many operations":       {runtimehooksv1.JSONPatchType, many(MaxOperations + 1), "2001 operations"},
		"a patch that is too large": {runtimehooksv1.JSONPatchType, padded(MaxDocument), "bytes"},
		"a merge patch that is too large": {runtimehooksv1.JSONMergePatchType,
			[]byte(`{"x":"` + strings.Repeat("x", MaxDocument) + `"}`), "bytes"},
		"a few copies":                      {runtimehooksv1.JSONPatchType, bomb(3), ""},
		"as many operations as are allowed": {runtimehooksv1.JSONPatchType, many(MaxOperations), ""},
		"an ordinary merge patch":           {runtimehooksv1.JSONMergePatchType, []byte(`{"spec":{"a":"c"}}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := runtimehooksv1.Patch{PatchType: c.kind, Patch: c.patch}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Apply(document, p)
			runtime.ReadMemStats(&after)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("Apply allocated %d MiB", used>>20)
			}
		})
	}
}

func many(operations int) []byte {
	all := make([]string, operations)
	for i := range all {
		all[i] = `{"op":"add","path":"/spec/list/0","value":1}`
	}
	return []byte("[" + strings.Join(all, ",") + "]")
}

func padded(size int) []byte {
	return []byte(`[{"op":"add","path":"/x","value":"` + strings.Repeat("x", size) + `"}]`)
}

func TestCount(t *testing.T) {
	operations, copies, err := Count(runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONPatchType, Patch: bomb(5)})
	if operations != 6 || copies != 5 || err != nil {
		t.Errorf("%d operations, %d copies, %v", operations, copies, err)
	}
	for name, p := range map[string]runtimehooksv1.Patch{
		"a merge patch": {PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(`{"a":"copy"}`)},
		"no patch":      {PatchType: runtimehooksv1.JSONPatchType},
	} {
		if operations, copies, err := Count(p); operations+copies != 0 || err != nil {
			t.Errorf("%s: %d operations, %d copies, %v", name, operations, copies, err)
		}
	}
	if _, _, err := Count(runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONPatchType, Patch: []byte(`{`)}); err == nil {
		t.Error("the operations of an invalid patch were counted")
	}
}
