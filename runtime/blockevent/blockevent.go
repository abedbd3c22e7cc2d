// Package blockevent creates an Event for a Cluster when a handler of a lifecycle hook begins to hold it back, and
// another when that is over. It creates them once for each block, not for each call of the handler.
//
// [Writer.Observe] is an Observer for the client of runtime extensions. It only queues calls; [Writer.Start], which a
// manager runs, creates the Events. The name of an Event is derived from the block, so a process that starts with its
// predecessor's journal creates no Event twice.
package blockevent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/internal/wire"
	"github.com/capstan-dev/capstan/runtime/record"
)

// Reasons of Events.
const (
	// ReasonBlocked (Normal, or Warning if the handler fails): a handler of the hook begins to block the Cluster.
	ReasonBlocked = "HookBlocked"
	// ReasonReleased (Normal): the handler no longer blocks the Cluster.
	ReasonReleased = "HookReleased"
	// ReasonUnblocked (Warning): an administrator let the Cluster pass, although a handler still blocks it.
	ReasonUnblocked = "HookUnblocked"
)

const (
	// maxQueue bounds how many calls wait for their Events, for example while the API server is unavailable. Further
	// calls are dropped and logged.
	maxQueue = 1024
	// maxMessage is the longest message that an API server accepts.
	maxMessage = 1024
	// callTimeout bounds one request.
	callTimeout = 10 * time.Second
)

// retries bridge about 30 seconds of an unavailable API server.
var retries = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Steps: 8, Cap: 10 * time.Second}

// Options of a Writer.
type Options struct {
	// Reader reads Clusters. Required.
	Reader client.Reader
	// Writer creates Events. Required.
	Writer client.Writer
	// Calls are the calls in the journal, oldest first. They show what is blocked when the process starts.
	Calls []record.Call
	// Component is the source of the Events. Required.
	Component string
	// Over is called with the name of a hook when no handler of that hook holds the Cluster back any longer, after the
	// Event of the last block. It is not called while another handler still holds the Cluster back. Default: nothing.
	Over func(ctx context.Context, cluster *clusterv1.Cluster, hook string) error
	// Log receives what failed. Default: nothing is logged.
	Log logr.Logger
}

// Writer creates the Events. Make it with [New].
type Writer struct {
	options Options
	tracker *record.Tracker
	queue   chan record.Call
}

// New makes a Writer.
func New(options Options) (*Writer, error) {
	if options.Reader == nil || options.Writer == nil || options.Component == "" {
		return nil, errors.New("making a writer of Events: it needs Reader, Writer and Component")
	}
	return &Writer{
		options: options, tracker: record.NewTracker(options.Calls), queue: make(chan record.Call, maxQueue),
	}, nil
}

// Observe queues a call. It never blocks.
func (w *Writer) Observe(call record.Call) {
	if call.Object.Kind != "Cluster" || !record.OfLifecycle(call.Hook) {
		return
	}
	select {
	case w.queue <- call:
	default:
		w.options.Log.Info("Too many calls of hooks wait for their Events: one is dropped", "hook", call.Hook, "cluster",
			call.Object.Name)
	}
}

// Start creates Events until ctx is done, beginning with missing ones for existing blocks.
func (w *Writer) Start(ctx context.Context) error {
	for _, b := range w.tracker.Blocks() {
		w.write(ctx, record.Change{Block: b})
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case call := <-w.queue:
			for _, change := range w.tracker.Add(call) {
				w.write(ctx, change)
			}
		}
	}
}

// write creates the Event of a change. It does nothing for a deleted Cluster.
func (w *Writer) write(ctx context.Context, change record.Change) {
	object := change.Block.Call.Object
	log := w.options.Log.WithValues("cluster", object.Namespace+"/"+object.Name, "hook", change.Block.Call.Hook)
	cluster := &clusterv1.Cluster{}
	err := retry(ctx, func(ctx context.Context) error {
		return w.options.Reader.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, cluster)
	})
	if apierrors.IsNotFound(err) {
		w.tracker.Forget(object)
		return
	}
	if err == nil {
		event := w.event(cluster, change)
		err = retry(ctx, func(ctx context.Context) error {
			err := w.options.Writer.Create(ctx, event.DeepCopy())
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
	if err != nil && ctx.Err() == nil {
		log.Error(err, "An Event could not be created")
	}
	if change.Ended == nil || w.options.Over == nil || w.tracker.Holds(object, change.Block.Call.Hook) {
		return
	}
	if err := retry(ctx, func(ctx context.Context) error {
		return w.options.Over(ctx, cluster, name(change.Block.Call.Hook))
	}); err != nil && ctx.Err() == nil {
		log.Error(err, "The records of a block that is over could not be removed")
	}
}

// retry repeats a function while it fails for a reason that may pass.
func retry(ctx context.Context, do func(context.Context) error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, retries, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		last = do(ctx)
		if apierrors.IsNotFound(last) || apierrors.IsInvalid(last) || apierrors.IsForbidden(last) ||
			apierrors.IsConflict(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// event returns the Event of a change.
func (w *Writer) event(cluster *clusterv1.Cluster, change record.Change) *corev1.Event {
	kind, reason, message, at := describe(change)
	sum := fnv.New64a()
	b := change.Block
	fmt.Fprint(sum, cluster.UID, b.Call.Hook, "/", b.Call.Extension, "/", b.Call.Handler, "/", b.Since.UnixNano(),
		"/", reason)
	when := metav1.NewTime(at)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: fmt.Sprintf("%s.%016x", cluster.Name, sum.Sum64())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name,
			UID: cluster.UID,
		},
		Type: kind, Reason: reason, Message: wire.Clip(message, maxMessage),
		Source: corev1.EventSource{Component: w.options.Component}, ReportingController: w.options.Component,
		ReportingInstance: w.options.Component,
		FirstTimestamp:    when, LastTimestamp: when, Count: 1,
	}
}

// describe returns the type, reason, message and time of a change's Event.
func describe(change record.Change) (kind, reason, message string, at time.Time) {
	b, ended := change.Block, change.Ended
	hook, who := name(b.Call.Hook), fmt.Sprintf("handler %s of extension %s", b.Call.Handler, b.Call.Extension)
	if ended == nil {
		since := b.Since.UTC().Format(time.RFC3339)
		if b.Call.Err != nil {
			return corev1.EventTypeWarning, ReasonBlocked, fmt.Sprintf("Hook %s has been blocked since %s: %s fails: %v", hook,
				since,
				who, b.Call.Err), b.Since
		}
		return corev1.EventTypeNormal, ReasonBlocked, fmt.Sprintf("Hook %s has been blocked since %s: %s waits: %s", hook,
			since,
			who, b.Call.Message), b.Since
	}
	lasted := ended.Time.Sub(b.Since).Round(time.Second)
	switch {
	case ended.Hook != b.Call.Hook:
		message = fmt.Sprintf("Hook %s no longer blocks after %s: the Cluster is at %s now", hook, lasted, name(ended.Hook))
	case ended.Answer == record.Passed:
		return corev1.EventTypeWarning, ReasonUnblocked, fmt.Sprintf(
			"Hook %s was passed after %s, although %s blocks it; let through by %s", hook, lasted, who,
			ended.PassedBy), ended.Time
	default:
		message = fmt.Sprintf("Hook %s continues after %s: %s lets the Cluster through", hook, lasted, who)
	}
	return corev1.EventTypeNormal, ReasonReleased, message, ended.Time
}

// name returns the last part of group/version/Name.
func name(hook string) string { return hook[strings.LastIndexByte(hook, '/')+1:] }
