package patch_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/patch"
)

func TestDiff(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":                    {`{"a":1}`, `{ "a" : 1 }`, ``},
		"a value":                    {`{"a":1,"b":{"c":2}}`, `{"a":1,"b":{"c":3}}`, `{"b":{"c":3}}`},
		"a member that is new":       {`{}`, `{"a":{"b":[1]}}`, `{"a":{"b":[1]}}`},
		"a member that is gone":      {`{"a":{"b":1,"c":2}}`, `{"a":{"c":2}}`, `{"a":{"b":null}}`},
		"a member that becomes null": {`{"a":1}`, `{"a":null}`, `[{"op":"replace","path":"/a","value":null}]`},
		"a null within a new member": {`{}`, `{"a":{"b":null}}`, `[{"op":"add","path":"/a","value":{"b":null}}]`},
		"names with special characters": {
			`{"a/b~c":1}`, `{"a/b~c":null}`, `[{"op":"replace","path":"/a~1b~0c","value":null}]`,
		},
		"a long list gets one more": {`{"l":["aaaaaaaaaaaaaaaa","bbbbbbbbbbbbbbbb","cccccccccccccccc","dddddddddddddddd"]}`,
			`{"l":["aaaaaaaaaaaaaaaa","x","bbbbbbbbbbbbbbbb","cccccccccccccccc","dddddddddddddddd"]}`,
			`[{"op":"add","path":"/l/1","value":"x"}]`},
		"a long list loses one": {`{"l":["aaaaaaaaaaaaaaaa","bbbbbbbbbbbbbbbb","cccccccccccccccc","dddddddddddddddd"]}`,
			`{"l":["aaaaaaaaaaaaaaaa","cccccccccccccccc","dddddddddddddddd"]}`, `[{"op":"remove","path":"/l/1"}]`},
		"a short list": {`{"l":[1]}`, `{"l":[2,3]}`, `{"l":[2,3]}`},
		"a number too large": {`{"a":12345678901234567890}`, `{"a":12345678901234567891}`,
			`{"a":12345678901234567891}`},
		"an object becomes a list": {`{"a":{"b":1}}`, `{"a":[1]}`, `{"a":[1]}`},
	} {
		got, err := patch.Diff([]byte(c.before), []byte(c.after))
		if err != nil || string(got.Patch) != c.want || got.IsDefined() != (c.want != "") {
			t.Errorf("%s: %s %s, %v; want %s", name, got.PatchType, got.Patch, err, c.want)
		}
	}
	for name, c := range map[string][2]string{
		"no JSON": {`{`, `{}`}, "no JSON after": {`{}`, `}`}, "two documents": {`{}{}`, `{}`},
	} {
		if got, err := patch.Diff([]byte(c[0]), []byte(c[1])); err == nil {
			t.Errorf("%s: %s", name, got.Patch)
		}
	}
}

// The answer contains only what an extension can do (UH-07).
func TestOnly(t *testing.T) {
	before := []byte(`{"spec":{"memory":1,"cpus":1,"disk":{"size":1,"type":"a"}},"metadata":{"name":"x"}}`)
	after := []byte(`{"spec":{"memory":2,"cpus":2,"disk":{"size":2}},"metadata":{"name":"y"}}`)
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"one field": {[]string{"spec.memory"}, `{"spec":{"memory":2}}`},
		"two fields": {[]string{"spec.memory", "spec.disk"},
			`{"spec":{"disk":{"size":2,"type":null},"memory":2}}`},
		"a field that is gone":        {[]string{"spec.disk.type"}, `{"spec":{"disk":{"type":null}}}`},
		"a field that does not exist": {[]string{"spec.other.deep"}, ``},
		"no fields":                   {nil, ``},
	} {
		got, err := patch.Only(before, after, c.paths...)
		if err != nil || string(got.Patch) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got.Patch, err, c.want)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	for name, p := range map[string]runtimehooksv1.Patch{
		"another type":                   {PatchType: "Magic", Patch: []byte(`{}`)},
		"a merge patch that is not JSON": {PatchType: runtimehooksv1.JSONMergePatchType, Patch: []byte(`{`)},
		"a JSON patch that is not JSON":  {PatchType: runtimehooksv1.JSONPatchType, Patch: []byte(`{`)},
		"a path that does not exist": {
			PatchType: runtimehooksv1.JSONPatchType, Patch: []byte(`[{"op":"remove","path":"/a/b"}]`),
		},
	} {
		if got, err := patch.Apply([]byte(`{"x":1}`), p); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// For any two documents, the patch turns one into the other, and is the same each time.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}],"c":"d"}`), []byte(`{"a":[{"b":2},3],"e":{}}`))
	f.Add([]byte(`{"l":[1,2,3,4]}`), []byte(`{"l":[2,4,6]}`))
	f.Add([]byte(`{"":{"":0}}`), []byte(`{"":{"/":0}}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		var from, to map[string]any
		if json.Unmarshal(before, &from) != nil || json.Unmarshal(after, &to) != nil || from == nil || to == nil ||
			bytes.ContainsRune(before, '\\') {
			return
		}
		p, err := patch.Diff(before, after)
		if err != nil {
			t.Skip() // it reports an error instead of returning a wrong patch
		}
		if again, _ := patch.Diff(before, after); !reflect.DeepEqual(p, again) {
			t.Fatalf("%s, then %s", p.Patch, again.Patch)
		}
		if !p.IsDefined() {
			return
		}
		got, err := patch.Apply(before, p)
		if err != nil {
			t.Fatal(err)
		}
		var result map[string]any
		if err := json.Unmarshal(got, &result); err != nil || !reflect.DeepEqual(result, to) {
			t.Fatalf("%s with %s gives %s, want %s", before, p.Patch, got, after)
		}
	})
}

func TestSameOutside(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		paths         []string
		want          bool
	}{
		"equal documents":                  {`{"a":{"b":1}}`, `{"a":{"b":1}}`, nil, true},
		"another value":                    {`{"a":{"b":1}}`, `{"a":{"b":2}}`, nil, false},
		"another value at the path":        {`{"a":{"b":1},"c":1}`, `{"a":{"b":2},"c":1}`, []string{"a.b"}, true},
		"a new value below the path":       {`{}`, `{"a":{"b":{"c":2}}}`, []string{"a.b"}, true},
		"another value elsewhere":          {`{"a":{"b":1,"c":1}}`, `{"a":{"b":2,"c":2}}`, []string{"a.b"}, false},
		"an empty object counts as absent": {`{"a":{}}`, `{}`, nil, true},
		"an empty list is a value":         {`{"a":[]}`, `{}`, nil, false},
		"a path through a string":          {`{"a":"b"}`, `{"a":"c"}`, []string{"a.b"}, false},
	} {
		if got, err := patch.SameOutside([]byte(c.before), []byte(c.after), c.paths...); err != nil || got != c.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	for _, c := range [][2]string{{`{`, `{}`}, {`{}`, `{`}} {
		if _, err := patch.SameOutside([]byte(c[0]), []byte(c[1])); err == nil {
			t.Errorf("%s and %s: no error", c[0], c[1])
		}
	}
}
