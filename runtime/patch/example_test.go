package patch_test

import (
	"fmt"

	"github.com/capstan-dev/capstan/runtime/patch"
)

// An extension that updates Machines in place answers with those desired changes that it can make.
func ExampleOnly() {
	current := []byte(`{"spec":{"memory":1024,"image":"a"}}`)
	desired := []byte(`{"spec":{"memory":2048,"image":"b"}}`)
	p, err := patch.Only(current, desired, "spec.memory")
	fmt.Println(p.PatchType, string(p.Patch), err)
	// Output: JSONMergePatch {"spec":{"memory":2048}} <nil>
}
