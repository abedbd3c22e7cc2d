//go:build linux

package clusterctl

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// asProvider makes this binary the controller of a small provider, whose components are in testdata/tiny.yaml.
const asProvider = "CAPSTAN_TEST_PROVIDER"

// seen is the annotation of a Thing in which the provider records its release, and the answer that it gets when it
// lists all Secrets.
const seen = "tiny.example.com/seen"

// beProvider runs the controller, with the flags that Cluster API's providers have.
func beProvider() error {
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	port, directory := flags.Int("webhook-port", 9443, ""), flags.String("webhook-cert-dir", "", "")
	health, metrics := flags.String("health-addr", ":9440", ""), flags.String("diagnostics-address", ":8443", "")
	elect, release := flags.Bool("leader-elect", false, ""), flags.String("release", "", "")
	namespace, group := flags.String("own-namespace", "", ""), flags.String("group", "", "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	if name, _, _ := strings.Cut(*group, "."); *namespace != name+"-system" {
		return fmt.Errorf("the namespace does not belong to the group: %q", *namespace)
	}
	ctrl.SetLogger(klog.Background())
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, LeaderElection: *elect, HealthProbeBindAddress: *health,
		Metrics:       metricsserver.Options{BindAddress: *metrics},
		WebhookServer: webhook.NewServer(webhook.Options{Port: *port, CertDir: *directory}),
	})
	if err != nil {
		return err
	}
	server := mgr.GetWebhookServer()
	server.Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(validateThing)})
	server.Register("/convert", http.HandlerFunc(convertThings))
	reconciler := &things{mgr.GetClient(), mgr.GetAPIReader(), *group, *release}
	if err := errors.Join(mgr.AddReadyzCheck("webhooks", server.StartedChecker()),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		ctrl.NewControllerManagedBy(mgr).Named("thing").For(reconciler.thing()).Complete(reconciler)); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// things is the provider's controller: it sets the annotation named by the constant seen on each Thing.
type things struct {
	client.Client
	direct         client.Reader
	group, release string
}

// thing returns an empty Thing.
func (r *things) thing() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(r.group + "/v1")
	o.SetKind("Thing")
	return o
}

func (r *things) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o := r.thing()
	if err := r.Get(ctx, req.NamespacedName, o); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	said := r.release + " " + string(apierrors.ReasonForError(r.direct.List(ctx, &corev1.SecretList{})))
	if o.GetAnnotations()[seen] == said {
		return ctrl.Result{}, nil
	}
	before := o.DeepCopy()
	o.SetAnnotations(map[string]string{seen: said})
	return ctrl.Result{}, r.Patch(ctx, o, client.MergeFrom(before))
}

// validateThing refuses a Thing whose count is more than 9.
func validateThing(_ context.Context, r admission.Request) admission.Response {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(r.Object.Raw, o); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if count, _, _ := unstructured.NestedInt64(o.Object, "count"); count > 9 {
		return admission.Denied("that is more than 9")
	}
	return admission.Allowed("")
}

// convertThings renames the field that is named count in v1 and size in v1alpha1.
func convertThings(w http.ResponseWriter, r *http.Request) {
	review := &apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(review); err != nil || review.Request == nil {
		http.Error(w, "no ConversionReview", http.StatusBadRequest)
		return
	}
	answer := &apiextensionsv1.ConversionResponse{
		UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
	}
	for _, raw := range review.Request.Objects {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(raw.Raw, o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from, to := "count", "size"
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
			from, to = to, from
		}
		if value, ok := o.Object[from]; ok {
			o.Object[to] = value
			delete(o.Object, from)
		}
		o.SetAPIVersion(review.Request.DesiredAPIVersion)
		answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Object: o})
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}
