// Package providers runs the controllers of other providers as processes of the plane, which runs no containers.
//
// Each Deployment with [BinaryAnnotation] represents such a provider and has one process. The process runs the file
// that the annotation names, with the arguments and variables of the Deployment's container, and has the rights of its
// ServiceAccount at the API server. The plane restarts the process when it exits, and when the Deployment, the file, or
// a mounted Secret or ConfigMap has changed. The plane stops the process when the Deployment is deleted, no longer has
// the annotation, or has 0 replicas, and when the plane itself stops. The Deployment's status reports the state of the
// process, and an Event says why it exited.
//
// The process is not a container: on this machine it may do whatever the user who runs the plane may do. So a
// Deployment alone is not enough, because anybody who can write one could run any program here: the user must have
// allowed the file with [Allow].
//
// The plane's directory contains providers/NAMESPACE/NAME for each provider, with its kubeconfig and token, a directory
// for temporary files and one for each volume.
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

// BinaryAnnotation is on a Deployment that runs as a process; its value is the absolute path of the program.
const BinaryAnnotation = "plane.capstan.dev/binary"

const (
	// lookAgain is how often to check the file, the mounts and the age of the token.
	lookAgain = 10 * time.Second
	// tryAgain is the pause before another attempt if something that a process needs was missing.
	tryAgain = 2 * time.Second
	// changes bounds how many processes can wait to be checked after something happened to them; the others are checked
	// soon anyway.
	changes = 64
)

// Options say where things are.
type Options struct {
	// Dir is the plane's directory, Logs its directory for logs. Required.
	Dir, Logs string
	// Server is the URL of the API server where the processes run, CA its certificate authority. Required.
	Server string
	CA     []byte
	// Env is the common environment of all processes.
	Env []string
	// Files are inherited by the processes.
	Files []*os.File
	// Grace is how long a process may take to exit when asked to.
	Grace time.Duration

	look, retry time.Duration // shorter in tests
}

// reconciler keeps the processes running.
type reconciler struct {
	Options
	client.Client
	// direct reads from the API server, because the cache does not hold all Secrets.
	direct   client.Reader
	recorder events.EventRecorder
	happened chan event.GenericEvent

	mu      sync.Mutex
	running map[types.NamespacedName]*child
	closed  bool
}

// Setup adds the controller to the manager of a plane. The controller's processes stop with the manager.
func Setup(mgr ctrl.Manager, o Options) error {
	r := &reconciler{
		Options: o, Client: mgr.GetClient(), direct: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder("capstan-plane"),
		happened: make(chan event.GenericEvent, changes), running: map[types.NamespacedName]*child{},
	}
	// List the existing directories before new ones are created.
	left, err := filepath.Glob(filepath.Join(r.Dir, directory, "*", "*"))
	if err != nil {
		return fmt.Errorf("looking for directories of providers: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		r.sweep(ctx, left)
		<-ctx.Done()
		r.end()
		return nil
	})); err != nil {
		return fmt.Errorf("adding the shutdown of providers: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("provider-process").For(&appsv1.Deployment{}).
		WatchesRawSource(source.Channel(r.happened, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller of providers: %w", err)
	}
	return nil
}

// Reconcile makes the process of a Deployment match the Deployment.
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
			return ctrl.Result{}, nil // deleted, or somebody else's
		}
		return ctrl.Result{}, r.report(ctx, d, state{off: true})
	}
	now, err := r.keep(ctx, d, binary)
	pause := cmp.Or(r.look, lookAgain)
	if err != nil { // report it in the status and retry: what is missing may appear
		now, pause = state{problem: limited(err.Error())}, cmp.Or(r.retry, tryAgain)
	}
	return ctrl.Result{RequeueAfter: pause}, r.report(ctx, d, now)
}

// keep makes sure that the process runs as the Deployment currently says. If that is impossible, there is no process,
// and the error says why. If something is missing, a running process keeps running and its token is still renewed: the
// API server may be away for a moment, or the program may just be rebuilt.
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
		if !same { // if same is true, renew is what failed
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
		return state{off: true}, nil // the plane is stopping
	}
	return c.now(), nil
}

// dir returns the directory of a provider.
func (r *reconciler) dir(key types.NamespacedName) string {
	return filepath.Join(r.Dir, directory, key.Namespace, key.Name)
}

// directory is the name of the directory with all providers' directories.
const directory = "providers"

func (r *reconciler) child(key types.NamespacedName) *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[key]
}

// stop stops the process of a Deployment, and returns once it is gone.
func (r *reconciler) stop(key types.NamespacedName) {
	r.mu.Lock()
	c := r.running[key]
	delete(r.running, key)
	r.mu.Unlock()
	if c != nil {
		c.stop()
	}
}

// end stops all processes concurrently, and prevents new ones from starting.
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

// sweep removes the directories, which hold tokens and keys, of Deployments that were deleted while the plane was not
// running.
func (r *reconciler) sweep(ctx context.Context, dirs []string) {
	for _, dir := range dirs {
		key := types.NamespacedName{Namespace: filepath.Base(filepath.Dir(dir)), Name: filepath.Base(dir)}
		d := &appsv1.Deployment{}
		err := r.Get(ctx, key, d)
		if _, ours := d.Annotations[BinaryAnnotation]; err == nil && ours || client.IgnoreNotFound(err) != nil {
			continue // the directory is needed, or may be
		}
		if err := remove(dir); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "The directory of a removed provider could not be deleted", "directory", dir)
		}
	}
}

// remove removes the directory of a provider, and that of its namespace if it is empty then.
func remove(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the directory of a provider: %w", err)
	}
	_ = os.Remove(filepath.Dir(dir)) // fails if the directory is not empty
	return nil
}
