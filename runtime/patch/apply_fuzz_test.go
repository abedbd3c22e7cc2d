package patch_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/patch"
)

// FuzzApply: any patch quickly yields a JSON document within the limits, or an error, and the same each time. Each
// patch that can be applied can also be counted, and the counts are within the limits.
func FuzzApply(f *testing.F) {
	f.Add(`{"a":[1],"b":{}}`, `[{"op":"copy","from":"/a","path":"/b/c"},{"op":"move","from":"/a","path":"/d"}]`, true)
	f.Add(`{"a":"x"}`, `{"a":null,"b":{"c":[1]}}`, false)
	f.Add(`{"l":["xxxxxxxx"]}`, `[{"op":"copy","from":"/l","path":"/l/-"},{"op":"copy","from":"/l","path":"/l/-"}]`, true)
	f.Add(`{"l":[]}`, `[{"op":"add","path":"/l/999999999","value":1},{"op":"test","path":"/l/-1","value":null}]`, true)
	f.Fuzz(func(t *testing.T, document, text string, isJSONPatch bool) {
		p := runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(text)}
		if isJSONPatch {
			p.PatchType = runtimehooksv1.JSONPatchType
		}
		start := time.Now()
		first, err := patch.Apply([]byte(document), p)
		if took := time.Since(start); took > 5*time.Second {
			t.Fatalf("it took %s", took)
		}
		second, again := patch.Apply([]byte(document), p)
		if (err == nil) != (again == nil) || !bytes.Equal(normal(first), normal(second)) {
			t.Fatalf("%s, then %s: %v, %v", first, second, err, again)
		}
		if err != nil {
			return
		}
		if len(first) > patch.MaxDocument || json.Valid([]byte(document)) && !json.Valid(first) {
			t.Fatalf("%d bytes, valid %t", len(first), json.Valid(first))
		}
		operations, copies, err := patch.Count(p)
		if err != nil || operations > patch.MaxOperations || copies > patch.MaxCopies {
			t.Fatalf("%d operations, %d copies, %v", operations, copies, err)
		}
	})
}

// normal brings JSON into canonical form.
func normal(data []byte) []byte {
	var value any
	if json.Unmarshal(data, &value) != nil {
		return data
	}
	again, err := json.Marshal(value)
	if err != nil {
		return data
	}
	return again
}
