package addon

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InventoryNamespace and InventoryName name the ConfigMap in the workload cluster that has what was applied.
const (
	InventoryNamespace = "kube-system"
	InventoryName      = "capstan-add-ons"
	inventoryKey       = "objects"
)

// entry is one object of the inventory.
type entry struct {
	Ref `json:",inline"`
	// UID of the object as it was applied; empty: it is about to be applied for the first time.
	UID types.UID `json:"uid,omitempty"`
	// Hash of what was applied.
	Hash string `json:"hash,omitempty"`
	// Adopted is true for what somebody else has made, before it was applied for the first time or again later: it is
	// changed, and never removed.
	Adopted bool `json:"adopted,omitempty"`
}

// inventory is what was applied to a cluster, in the order in which it was.
type inventory struct {
	entries []entry
	stored  *corev1.ConfigMap // as it was read or written last; nil if there is none
	content string            // what it holds
}

// readInventory reads the inventory of a workload cluster. There is none before the first add-on.
func readInventory(ctx context.Context, c client.Reader) (*inventory, error) {
	stored := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: InventoryNamespace, Name: InventoryName}, stored)
	if apierrors.IsNotFound(err) {
		return &inventory{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the inventory of add-ons: %w", err)
	}
	inv := &inventory{stored: stored, content: stored.Data[inventoryKey]}
	if inv.content == "" {
		return inv, nil
	}
	if err := json.Unmarshal([]byte(inv.content), &inv.entries); err != nil {
		return nil, fmt.Errorf("the inventory of add-ons in ConfigMap %s/%s can't be read (%w): delete it to have it made "+
			"anew; "+
			"what was applied before is not removed any more then", InventoryNamespace, InventoryName, err)
	}
	return inv, nil
}

// write stores the inventory if it has changed. If somebody else has changed it meanwhile, that is an error.
func (inv *inventory) write(ctx context.Context, c client.Client) error {
	data, err := json.Marshal(inv.entries)
	if err != nil {
		return fmt.Errorf("encoding the inventory of add-ons: %w", err)
	}
	if string(data) == inv.content || len(inv.entries) == 0 && inv.stored == nil {
		return nil
	}
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: InventoryNamespace, Name: InventoryName,
		Labels: map[string]string{"app.kubernetes.io/managed-by": FieldManager},
	}}
	if inv.stored != nil {
		next = inv.stored.DeepCopy()
	}
	next.Data = map[string]string{inventoryKey: string(data)}
	if inv.stored == nil {
		err = c.Create(ctx, next, client.FieldOwner(FieldManager))
	} else {
		err = c.Update(ctx, next, client.FieldOwner(FieldManager))
	}
	if err != nil {
		return fmt.Errorf("writing the inventory of add-ons: %w", err)
	}
	inv.stored, inv.content = next, string(data)
	return nil
}

// find gives the place of an object in the inventory, -1 if it has none.
func (inv *inventory) find(ref Ref) int {
	return slices.IndexFunc(inv.entries, func(e entry) bool { return e.Ref.same() == ref.same() })
}

// has tells whether an object was applied as it is wanted now.
func (inv *inventory) has(o *Object) bool {
	at := inv.find(o.Ref)
	return at >= 0 && inv.entries[at].UID != "" && inv.entries[at].Hash == o.Hash
}

// known gives the place of the object that is there, whatever it is called in the inventory; -1 if it has none.
func (inv *inventory) known(there *unstructured.Unstructured) int {
	if there == nil {
		return -1
	}
	return slices.IndexFunc(inv.entries, func(e entry) bool { return e.UID == there.GetUID() })
}
