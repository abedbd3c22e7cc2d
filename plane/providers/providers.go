// Package providers runs the controllers of other providers as processes of the plane, which runs no containers.
//
// A Deployment with [BinaryAnnotation] is the record of such a provider. For each there is one process: the file that
// the annotation names, with the arguments and variables of the Deployment's container, and the rights of its
// ServiceAccount at the API server. It is started anew when it ends, and when the Deployment, a Secret or ConfigMap
// that it mounts, or the file has changed; it ends with the Deployment and with the plane. The Deployment's status says
// how it is; an Event says why it ended.
//
// The process is no container: it may do on this machine what the user may who runs the plane. So a Deployment alone is
// not enough, or whoever can write one would run any program here: the user must have allowed the file by [Allow].
//
// In the folder of the plane there is providers/NAMESPACE/NAME for each, with its kubeconfig and token, a folder for
// temporary files and one for each volume.
package providers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// BinaryAnnotation is on a Deployment that runs as a process: the absolute path of the program.
const BinaryAnnotation = "plane.capstan.dev/binary"

const (
	// lookAgain is how often the file, the mounts and the age of the token are looked at.
	lookAgain = 10 * time.Second
	// tryAgain is the pause after something that a process needs was not there.
	tryAgain = 2 * time.Second
	// changes bounds how many processes wait to be looked at because something has happened to them; the others are looked
	// at soon anyway.
	changes = 64
)

// Options say where things are.
type Options struct {
	// Dir is the folder of the plane, Logs the one for logs. Required.
	Dir, Logs string
	// Server is the URL of the API server where the processes run, CA its authority. Required.
	Server string
	CA     []byte
	// Env is what every process has in its environment.
	Env []string
	// Files are inherited by the processes.
	Files []*os.File
	// Grace is how long a process may take to end by itself.
	Grace time.Duration

	look, retry time.Duration // shorter in tests
}

// reconciler keeps the processes.
type reconciler struct {
	Options
	client.Client
	// direct reads from the API server: Secrets are not all in the cache.
	direct   client.Reader
	recorder events.EventRecorder
	happened chan event.GenericEvent

	mu      sync.Mutex
	running map[types.NamespacedName]*child
	closed  bool
}

// Setup adds the controller to the manager of a plane. Its processes end with the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	r := &reconciler{
		Options: o, Client: mgr.GetClient(), direct: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("capstan-plane"),
		happened: make(chan event.GenericEvent, changes), running: map[types.NamespacedName]*child{},
	}
	// They are listed before anything makes new ones.
	left, err := filepath.Glob(filepath.Join(r.Dir, folder, "*", "*"))
	if err != nil {
		return fmt.Errorf("looking for folders of providers: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		r.sweep(ctx, left)
		<-ctx.Done()
		r.end()
		return nil
	})); err != nil {
		return fmt.Errorf("adding the end of providers: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("provider-process").For(&appsv1.Deployment{}).
		WatchesRawSource(source.Channel(r.happened, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of providers: %w", err)
	}
	return nil
}

// Reconcile makes the process of a Deployment what the Deployment says.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	d := &appsv1.Deployment{}
	if err := r.Get(ctx, req.NamespacedName, d); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading a Deployment: %w", err)
	}
	binary, ours := d.Annotations[BinaryAnnotation]
	if !ours || !d.DeletionTimestamp.IsZero() || ptr.Deref(d.Spec.Replicas, 1) == 0 {
		r.stop(req.NamespacedName)
		if err := remove(r.dir(req.NamespacedName)); err != nil {
			return ctrl.Result{}, err
		}
		if !ours {
			return ctrl.Result{}, nil // it is gone, or somebody else's
		}
		return ctrl.Result{}, r.report(ctx, d, state{off: true})
	}
	now, err := r.keep(ctx, d, binary)
	pause := cmp.Or(r.look, lookAgain)
	if err != nil { // told in the status, and tried again: what is missing may come
		now, pause = state{problem: limited(err.Error())}, cmp.Or(r.retry, tryAgain)
	}
	return ctrl.Result{RequeueAfter: pause}, r.report(ctx, d, now)
}

// keep sees to it that the process runs, with what the Deployment says now. An error says why it can't; then there is
// none. One that runs already goes on while something is missing, and keeps its rights: the API server may be away for
// a moment, or the program be built anew.
func (r *reconciler) keep(ctx context.Context, d *appsv1.Deployment, binary string) (state, error) {
	key := client.ObjectKeyFromObject(d)
	c := r.child(key)
	setting, err := r.setting(ctx, d, binary)
	same := c != nil && err == nil && c.fingerprint == setting.fingerprint
	if same {
		err = r.renew(ctx, d, setting.dir)
	}
	switch {
	case errors.Is(err, errNotAllowed):
		r.stop(key)
		return state{}, err
	case err != nil && c != nil:
		now := c.now()
		if !same { // else it was that which failed
			err = errors.Join(err, r.renew(ctx, d, r.dir(key)))
		}
		now.missing = limited(err.Error())
		return now, nil
	case err != nil:
		return state{}, err
	case same:
		return c.now(), nil
	}
	r.stop(key)
	if err := setting.write(); err != nil {
		return state{}, err
	}
	if err := r.renew(ctx, d, setting.dir); err != nil {
		return state{}, err
	}
	if c = r.start(d, setting); c == nil {
		return state{off: true}, nil // the plane ends
	}
	return c.now(), nil
}

// dir is the folder of a provider.
func (r *reconciler) dir(key types.NamespacedName) string {
	return filepath.Join(r.Dir, folder, key.Namespace, key.Name)
}

// folder has the folders of all providers.
const folder = "providers"

func (r *reconciler) child(key types.NamespacedName) *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[key]
}

// stop ends the process of a Deployment, and returns when it is gone.
func (r *reconciler) stop(key types.NamespacedName) {
	r.mu.Lock()
	c := r.running[key]
	delete(r.running, key)
	r.mu.Unlock()
	if c != nil {
		c.stop()
	}
}

// end ends all processes, at the same time, and lets no other begin.
func (r *reconciler) end() {
	r.mu.Lock()
	r.closed = true
	all := r.running
	r.running = map[types.NamespacedName]*child{}
	r.mu.Unlock()
	for _, c := range all {
		c.cancel()
	}
	for _, c := range all {
		c.stop()
	}
}

// sweep removes folders, which hold tokens and keys, of Deployments that went while there was no plane.
func (r *reconciler) sweep(ctx context.Context, dirs []string) {
	for _, dir := range dirs {
		key := types.NamespacedName{Namespace: filepath.Base(filepath.Dir(dir)), Name: filepath.Base(dir)}
		d := &appsv1.Deployment{}
		err := r.Get(ctx, key, d)
		if _, ours := d.Annotations[BinaryAnnotation]; err == nil && ours || client.IgnoreNotFound(err) != nil {
			continue // it is needed, or may be
		}
		if err := remove(dir); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The folder of a provider that is gone was not removed", "folder", dir)
		}
	}
}

// remove removes the folder of a provider, and that of its namespace if there is no other.
func remove(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the folder of a provider: %w", err)
	}
	_ = os.Remove(filepath.Dir(dir)) // fails as long as there is something in it
	return nil
}
