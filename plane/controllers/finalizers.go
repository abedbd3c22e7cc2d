package controllers

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// finalizerClient makes a patch that only sets finalizers fail with a conflict if the object has changed since it was
// read.
//
// Cluster API's util/finalizers.EnsureFinalizer sends the whole list in a merge patch without a resourceVersion. If two
// controllers of the same kind (machineset and topology/machineset) start with a new object at the same time, each
// sends a list with its own finalizer, and the second list replaces the first. If the Cluster is deleted at that
// moment, the MachineSet disappears before its Machines. A Machine without its MachineSet is never reconciled again
// (machine_controller.go, getOwnerMachineSet), so the deletion of the Cluster never completes.
type finalizerClient struct{ client.Client }

// newClient implements client.NewClientFunc.
func newClient(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return finalizerClient{c}, nil
}

// Patch implements client.Client. Nobody can add finalizers to an object that is being deleted, so a patch of such an
// object only removes finalizers and is sent unchanged. Cluster API retries patches that fail.
func (c finalizerClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if p.Type() != types.MergePatchType || !o.GetDeletionTimestamp().IsZero() || o.GetResourceVersion() == "" {
		return c.Client.Patch(ctx, o, p, opts...)
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	if finalizers, only := onlyFinalizers(data); only {
		data, err = json.Marshal(map[string]any{"metadata": map[string]any{
			"finalizers": finalizers, "resourceVersion": o.GetResourceVersion(),
		}})
		if err != nil {
			return err
		}
	}
	return c.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, data), opts...)
}

// onlyFinalizers returns the finalizers in a merge patch, and reports whether it changes nothing else.
func onlyFinalizers(data []byte) ([]string, bool) {
	var patch map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &patch); err != nil || len(patch) != 1 || len(patch["metadata"]) != 1 {
		return nil, false
	}
	list, ok := patch["metadata"]["finalizers"]
	if !ok {
		return nil, false
	}
	var finalizers []string
	if err := json.Unmarshal(list, &finalizers); err != nil {
		return nil, false
	}
	return finalizers, true
}
