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

// Desk gives out the permissions on objects, each once. Make it with [NewDesk].
type Desk struct {
	reader ctrlclient.Reader
	writer ctrlclient.Writer
	now    func() time.Time
}

// NewDesk makes a desk. The reader must read from the API server: a cache may still show a permission that was used.
func NewDesk(reader ctrlclient.Reader, writer ctrlclient.Writer) *Desk {
	return &Desk{reader: reader, writer: writer, now: time.Now}
}

// Pass gives the permission for an object at a hook; nil if there is none that counts. It is for client.Options.Pass.
// Without an annotation it costs nothing.
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

// use takes the permission away, from the object as it is now.
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
		return errors.New("the permission was used already, or replaced by another one")
	}
	if why := now.counts(fresh, order.Hook, d.now()); why != "" {
		return errors.New("the permission does not count any more: " + why)
	}
	return d.remove(ctx, fresh)
}

// Clear takes away a permission for a hook that is not needed any more, because the object has gone on without it. It
// is no error if there is none, or another one meanwhile. Who calls hooks writes to the object in the same moment, so
// it is tried again on a conflict.
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

// again reads an object as it is now.
func (d *Desk) again(ctx context.Context, object ctrlclient.Object) (ctrlclient.Object, error) {
	fresh := object.DeepCopyObject().(ctrlclient.Object)
	fresh.SetAnnotations(nil) // what is read goes over what is there: a key that is gone would stay
	return fresh, d.reader.Get(ctx, ctrlclient.ObjectKeyFromObject(object), fresh)
}

// remove removes the annotation, if the object is still the one that was read.
func (d *Desk) remove(ctx context.Context, object ctrlclient.Object) error {
	err := patch(ctx, d.writer, object, nil)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("the object has changed in this moment; it is tried again: %w", err)
	}
	return err
}

// Grant writes a permission on an object, for the generation that the object has, in place of one that was there.
func Grant(ctx context.Context, writer ctrlclient.Writer, object ctrlclient.Object, order Order) error {
	order.Generation = object.GetGeneration()
	if err := order.Check(); err != nil {
		return fmt.Errorf("giving the permission: %w", err)
	}
	data, err := json.Marshal(order)
	if err != nil {
		return fmt.Errorf("giving the permission: %w", err)
	}
	text := string(data)
	return patch(ctx, writer, object, &text)
}

// patch sets or removes the annotation, with the resourceVersion that was read as a precondition.
func patch(ctx context.Context, writer ctrlclient.Writer, object ctrlclient.Object, value *string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": object.GetResourceVersion(), "annotations": map[string]*string{Annotation: value},
	}})
	if err != nil {
		return fmt.Errorf("writing annotation %s: %w", Annotation, err)
	}
	to := object.DeepCopyObject().(ctrlclient.Object) // the caller's stays as it is
	if err := writer.Patch(ctx, to, ctrlclient.RawPatch(types.MergePatchType, data)); err != nil {
		return fmt.Errorf("writing annotation %s: %w", Annotation, err)
	}
	return nil
}

func (o *Order) equals(other *Order) bool {
	return o.Hook == other.Hook && o.Extension == other.Extension && o.By == other.By && o.Reason == other.Reason &&
		o.Until.Equal(other.Until) && o.Generation == other.Generation
}
