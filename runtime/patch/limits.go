package patch

import (
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Limits of what a patch may cost the process that applies it. A JSON patch of 1.5 KB can demand gigabytes: each
// "copy" of a value into itself doubles it.
const (
	// MaxOperations is how many operations a JSON patch may have. Each costs time that grows with the document.
	MaxOperations = 2_000
	// MaxCopies is how many of the operations may be "copy".
	MaxCopies = 100
	// MaxDocument is the maximum size in bytes of a patch, of everything that its copies add, and of the patched
	// document. The API server accepts no object larger than about 1.5 MiB.
	MaxDocument = 4 << 20
)

// Count returns how many operations a JSON patch has, and how many of them are copies; it applies nothing. A merge
// patch has none. Count returns an error if the patch exceeds a limit or can't be read.
func Count(p runtimehooksv1.Patch) (operations, copies int, err error) {
	if p.PatchType != runtimehooksv1.JSONPatchType || len(p.Patch) == 0 {
		return 0, 0, checkSize("the patch", p.Patch)
	}
	decoded, err := decodeOperations(p.Patch)
	return len(decoded), countCopies(decoded), err
}

func countCopies(operations jsonpatch.Patch) int {
	copies := 0
	for _, o := range operations {
		if o.Kind() == "copy" {
			copies++
		}
	}
	return copies
}

// decodeOperations reads a JSON patch that is within the limits.
func decodeOperations(data []byte) (jsonpatch.Patch, error) {
	if err := checkSize("a JSON patch", data); err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, fmt.Errorf("reading a JSON patch: %w", err)
	}
	if len(decoded) > MaxOperations {
		return nil, fmt.Errorf("a JSON patch has %d operations: at most %d are allowed", len(decoded), MaxOperations)
	}
	if copies := countCopies(decoded); copies > MaxCopies {
		return nil, fmt.Errorf("a JSON patch has %d copy operations: at most %d are allowed", copies, MaxCopies)
	}
	return decoded, nil
}

func applyOptions() *jsonpatch.ApplyOptions {
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = MaxDocument
	return options
}

func checkSize(what string, data []byte) error {
	if len(data) > MaxDocument {
		return fmt.Errorf("%s has %d bytes: at most %d are allowed", what, len(data), MaxDocument)
	}
	return nil
}
