package unblock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/client"
)

// Desk hands out permissions to let objects through, each once. Make it with [NewDesk].
type Desk struct {
	reader ctrlclient.Reader
	writer ctrlclient.Writer
	now    func() time.Time
}

// NewDesk makes a desk. The reader must read from the API server: a cache may still return a used permission.
func NewDesk(reader ctrlclient.Reader, writer ctrlclient.Writer) *Desk {
	return &Desk{reader: reader, writer: writer, now: time.Now}
}

// Pass returns the permission for an object at a hook; nil if there is no valid one. Use it as client.Options.Pass.
// For objects without the annotation it makes no request.
func (d *Desk) Pass(_ context.Context, object ctrlclient.Object, hook string) (*client.Pass, error) {
	order, err := Read(object)
	if err != nil || order == nil || order.counts(object, hook, d.now()) != "" {
		return nil, err
	}
	return &client.Pass{
		Extension: order.Extension,
		By:        order.By + ": " + order.Reason,
		Use:       func(ctx context.Context) error { return d.use(ctx, object, order) },
	}, nil
}

// use removes the permission from the current object.
func (d *Desk) use(ctx context.Context, object ctrlclient.Object, order *Order) error {
	fresh, err := d.again(ctx, object)
	if err != nil {
		return fmt.Errorf("reading the object with the permission: %w", err)
	}
	now, err := Read(fresh)
	if err != nil {
		return err
	}
	if fresh.GetUID() != object.GetUID() || now == nil || !now.equals(order) {
		return errors.New("the permission was already used, or replaced by another one")
	}
	if why := now.counts(fresh, order.Hook, d.now()); why != "" {
		return errors.New("the permission is no longer valid: " + why)
	}
	return d.remove(ctx, fresh)
}

// Clear removes an object's permission for a hook once the object has moved on without using the permission. It also
// succeeds if there is no permission, or a different one by now. The caller of hooks writes to the object at the same
// time, so Clear retries on a conflict.
func (d *Desk) Clear(ctx context.Context, object ctrlclient.Object, hook string) error {
	order, err := Read(object)
	if err != nil || order == nil || order.Hook != hook {
		return err
	}
	fresh := object
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		err := d.remove(ctx, fresh)
		if !apierrors.IsConflict(err) {
			return ctrlclient.IgnoreNotFound(err)
		}
		var again error
		if fresh, again = d.again(ctx, object); again != nil {
			return ctrlclient.IgnoreNotFound(again)
		}
		now, again := Read(fresh)
		if again != nil || now == nil || !now.equals(order) || fresh.GetUID() != object.GetUID() {
			return again
		}
		return err
	})
}

// again reads the current object.
func (d *Desk) again(ctx context.Context, object ctrlclient.Object) (ctrlclient.Object, error) {
	fresh := object.DeepCopyObject().(ctrlclient.Object)
	fresh.SetAnnotations(nil) // decoding merges into the existing map: a removed key would stay
	return fresh, d.reader.Get(ctx, ctrlclient.ObjectKeyFromObject(object), fresh)
}

// remove removes the annotation if the object has not changed since it was read.
func (d *Desk) remove(ctx context.Context, object ctrlclient.Object) error {
	err := patch(ctx, d.writer, object, nil)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("the object has just changed; this will be retried: %w", err)
	}
	return err
}

// Grant writes a permission for an object's current generation, and replaces an existing one.
func Grant(ctx context.Context, writer ctrlclient.Writer, object ctrlclient.Object, order Order) error {
	order.Generation = object.GetGeneration()
	if err := order.Check(); err != nil {
		return fmt.Errorf("granting the permission: %w", err)
	}
	data, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("granting the permission: %w", err)
	}
	text := string(data)
	return patch(ctx, writer, object, &text)
}

// patch sets or removes the annotation, with the resourceVersion of the object as a precondition.
func patch(ctx context.Context, writer ctrlclient.Writer, object ctrlclient.Object, value *string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(), "annotations": map[string]*string{Annotation: value},
	}})
	if err != nil {
		return fmt.Errorf("writing annotation %s: %w", Annotation, err)
	}
	to := object.DeepCopyObject().(ctrlclient.Object) // leave the caller's object unchanged
	if err := writer.Patch(ctx, to, ctrlclient.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("writing annotation %s: %w", Annotation, err)
	}
	return nil
}

func (o *Order) equals(other *Order) bool {
	return o.Hook == other.Hook && o.Extension == other.Extension && o.By == other.By && o.Reason == other.Reason &&
		o.Until.Equal(other.Until) && o.Generation == other.Generation
}
