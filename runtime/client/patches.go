package client

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/runtime/patch"
)

// checkPatches refuses an answer whose patches would cost too much: Cluster API's reconcilers apply them without a
// limit, in the process that serves all clusters. Patches that are invalid for other reasons, and other responses, are
// left to the reconcilers.
func checkPatches(request runtimehooksv1.RequestObject, response runtimehooksv1.ResponseObject) error {
	asked, isPatches := request.(*runtimehooksv1.GeneratePatchesRequest)
	answer, fits := response.(*runtimehooksv1.GeneratePatchesResponse)
	if !isPatches || !fits {
		return nil
	}
	copies, err := countPatches(answer)
	if err != nil || copies == 0 {
		return err // without copies nothing grows beyond the size of the answer
	}
	return tryPatches(asked, answer)
}

// countPatches applies the limits of one patch to all of them together.
func countPatches(answer *runtimehooksv1.GeneratePatchesResponse) (copies int, err error) {
	size, operations := 0, 0
	for i, item := range answer.Items {
		if size += len(item.Patch); size > patch.MaxDocument {
			return 0, fmt.Errorf("its patches have more than %d bytes together", patch.MaxDocument)
		}
		o, c, err := patch.Count(patchOf(item))
		if err != nil {
			return 0, fmt.Errorf("its patch %d can't be used: %w", i+1, err)
		}
		if operations += o; operations > patch.MaxOperations {
			return 0, fmt.Errorf("its patches have more than %d operations together", patch.MaxOperations)
		}
		if copies += c; copies > patch.MaxCopies {
			return 0, fmt.Errorf("its patches have more than %d copy operations together", patch.MaxCopies)
		}
	}
	return copies, nil
}

// tryPatches applies the patches in turn, as the reconcilers will, within the limits.
func tryPatches(asked *runtimehooksv1.GeneratePatchesRequest, answer *runtimehooksv1.GeneratePatchesResponse) error {
	documents := map[types.UID][]byte{}
	for i, item := range answer.Items {
		document, known := documents[item.UID]
		if !known {
			at := slices.IndexFunc(asked.Items, func(o runtimehooksv1.GeneratePatchesRequestItem) bool {
				return o.UID == item.UID
			})
			if at < 0 {
				continue
			}
			document = asked.Items[at].Object.Raw
		}
		after, err := patch.Apply(document, patchOf(item))
		if err != nil {
			return fmt.Errorf("its patch %d can't be used: %w", i+1, err)
		}
		documents[item.UID] = after
	}
	return nil
}

func patchOf(item runtimehooksv1.GeneratePatchesResponseItem) runtimehooksv1.Patch {
	return runtimehooksv1.Patch{PatchType: item.PatchType, Patch: item.Patch}
}
