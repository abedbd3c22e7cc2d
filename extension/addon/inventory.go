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

// InventoryNamespace and InventoryName identify the ConfigMap in the workload cluster that lists what was applied.
const (
	InventoryNamespace = "kube-system"
	InventoryName      = "capstan-add-ons"
	inventoryKey       = "objects"
)

// entry is one object of the inventory.
type entry struct {
	Ref `json:",inline"`
	// UID is the UID of the applied object. It is empty before the first apply.
	UID types.UID `json:"uid,omitempty"`
	// Hash identifies what was applied.
	Hash string `json:"hash,omitempty"`
	// Adopted marks an object that somebody else created, before the first apply or later. Apply changes it but never
	// removes it.
	Adopted bool `json:"adopted,omitempty"`
}

// inventory lists what was applied to a cluster, in order of application.
type inventory struct {
	entries []entry
	stored  *corev1.ConfigMap // as last read or written; nil if there is none
	content string            // the content of stored
}

// readInventory reads the inventory of a workload cluster. Before the first add-on it is empty.
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
		return nil, fmt.Errorf("the inventory of add-ons in ConfigMap %s/%s can't be read (%w): delete it to have it "+
			"recreated; "+
			"objects applied before are then no longer removed", InventoryNamespace, InventoryName, err)
	}
	return inv, nil
}

// write stores the inventory if it has changed. It fails if somebody else has changed it in the meantime.
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

// find returns the index of an object in the inventory, or -1.
func (inv *inventory) find(ref Ref) int {
	return slices.IndexFunc(inv.entries, func(e entry) bool { return e.Ref.same() == ref.same() })
}

// has reports whether an object was applied in its current form.
func (inv *inventory) has(o *Object) bool {
	at := inv.find(o.Ref)
	return at >= 0 && inv.entries[at].UID != "" && inv.entries[at].Hash == o.Hash
}

// known returns the index of an existing object, whatever its reference in the inventory, or -1.
func (inv *inventory) known(there *unstructured.Unstructured) int {
	if there == nil {
		return -1
	}
	return slices.IndexFunc(inv.entries, func(e entry) bool { return e.UID == there.GetUID() })
}
