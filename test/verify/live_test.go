package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	manifests "github.com/capstan-dev/capstan/config/webhook"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/checks"
	"github.com/capstan-dev/capstan/contract/source"
	"github.com/capstan-dev/capstan/provider/webhook"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// patience limits each wait. It is long because the machine may be busy.
const patience = time.Minute

// cluster is a driver for a real API server.
type cluster struct{ client.WithWatch }

func refused(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Code >= 400 && status.ErrStatus.Code < 500 {
		return &check.RefusedError{Message: status.Error()}
	}
	return err
}

func placed(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	if o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	return o
}

// Apply implements check.Driver.
func (c cluster) Apply(ctx context.Context, o *unstructured.Unstructured, how check.Applying) (
	*unstructured.Unstructured, error,
) {
	o = placed(o)
	options := []client.ApplyOption{client.FieldOwner(how.Manager), client.ForceOwnership}
	if how.DryRun {
		options = append(options, client.DryRunAll)
	}
	err := c.WithWatch.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), options...)
	return o, refused(err)
}

// Delete implements check.Driver.
func (c cluster) Delete(ctx context.Context, o *unstructured.Unstructured) error {
	return refused(client.IgnoreNotFound(c.WithWatch.Delete(ctx, placed(o))))
}

// Observe implements check.Driver.
func (c cluster) Observe(ctx context.Context, o *unstructured.Unstructured) (
	states iter.Seq2[*unstructured.Unstructured, error],
) {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		o = placed(o)
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(o.GetAPIVersion())
		list.SetKind(o.GetKind() + "List")
		one := []client.ListOption{client.InNamespace(o.GetNamespace()), client.MatchingFields{"metadata.name": o.GetName()}}
		if err := c.List(ctx, list, one...); err != nil {
			yield(nil, refused(err))
			return
		}
		var present *unstructured.Unstructured
		if len(list.Items) > 0 {
			present = &list.Items[0]
		}
		if !yield(present, nil) {
			return
		}
		at := &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
		changes, err := c.Watch(ctx, list, append(one, &client.ListOptions{Raw: at})...)
		if err != nil {
			yield(nil, refused(err))
			return
		}
		defer changes.Stop()
		for event := range changes.ResultChan() {
			state, _ := event.Object.(*unstructured.Unstructured)
			if event.Type == "DELETED" {
				state = nil
			}
			if !yield(state, nil) {
				return
			}
		}
	}
}

// start starts an API server with our definitions and webhooks.
func start(t *testing.T) cluster {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	definitions, err := apiserver.Capstan()
	if err != nil {
		t.Fatal(err)
	}
	api, err := apiserver.Start(apiserver.Options{Converted: definitions})
	t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	api.Config.QPS = -1
	scheme := runtime.NewScheme()
	err = errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), webhook.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(api.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, api, scheme)
	register(t, api, c)
	return cluster{c}
}

// serve serves our webhooks.
func serve(t *testing.T, api *apiserver.Server, scheme *runtime.Scheme) {
	t.Helper()
	at := api.Webhooks
	mgr, err := ctrl.NewManager(api.Config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir,
		}),
	})
	if err == nil {
		err = webhook.Setup(mgr)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	await(t, func() error { return mgr.GetWebhookServer().StartedChecker()(nil) })
}

// register makes the API server call our webhooks.
func register(t *testing.T, api *apiserver.Server, c client.Client) {
	t.Helper()
	config := &admissionv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(manifests.Manifests, config); err != nil {
		t.Fatal(err)
	}
	at := api.Webhooks
	for i := range config.Webhooks {
		to := &config.Webhooks[i].ClientConfig
		url := fmt.Sprintf("https://%s:%d%s", at.LocalServingHost, at.LocalServingPort, *to.Service.Path)
		*to = admissionv1.WebhookClientConfig{URL: &url, CABundle: at.LocalServingCAData}
	}
	if err := c.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	// The API server learns of the webhooks a moment later. From then on it refuses this template, because its selector
	// is invalid.
	bad := templateWith(map[string]any{"hostSelector": map[string]any{"matchLabels": map[string]any{"not a key": "x"}}})
	await(t, func() error {
		if err := c.Create(t.Context(), bad.DeepCopy(), client.DryRunAll); err == nil {
			return errors.New("the API server does not call the webhooks")
		}
		return nil
	})
}

func templateWith(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.capstan.dev/v1beta2", "kind": "CapstanMachineTemplate",
		"metadata": map[string]any{"name": "probe", "namespace": "default"},
		"spec":     map[string]any{"template": map[string]any{"spec": spec}},
	}}
}

// await waits until the function done returns no error.
func await(t *testing.T, done func() error) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		err := done()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

// The live checks run over our own release with a real API server and our real webhooks, and find nothing. They do find
// two variants of CapstanMachineTemplate that break rule IMT-12. The schema of the first makes templates immutable even
// for dry runs. The policy for the second accepts real changes that carry the annotation of a dry run.
func TestLiveChecks(t *testing.T) {
	driver := start(t)
	dir := write(t, directory, ours(t))
	releases, err := source.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	run := func() *check.Report {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		report := check.RunLive(ctx, driver, checks.Live(), releases[0])
		for _, f := range report.Failures {
			t.Errorf("a live check itself failed: %s", f)
		}
		return report
	}
	report := run()
	if report.Checks != len(checks.Live()) || len(report.Skipped) > 0 || len(report.Findings) > 0 {
		t.Fatalf("live checks were skipped, or have findings about our release: %+v", report)
	}
	asked := &counting{cluster: driver}
	if contract.Verify(t, dir, contract.Driven(t.Context(), asked)); asked.applied == 0 {
		t.Error("Verify got a driver, but applied no objects")
	}
	gone, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for state, err := range driver.Observe(gone, leftOver()) {
		if err != nil || state != nil {
			t.Errorf("a live check leaves its template behind: %v, %v", state, err)
		}
		break
	}

	definition := &apiextensionsv1.CustomResourceDefinition{}
	name := client.ObjectKey{Name: "capstanmachinetemplates.infrastructure.capstan.dev"}
	if err := driver.Get(t.Context(), name, definition); err != nil {
		t.Fatal(err)
	}
	before := definition.DeepCopy()
	for i := range definition.Spec.Versions {
		immutable(&definition.Spec.Versions[i])
	}
	if err := driver.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	find(t, run, "refuses the topology controller's dry run")

	// Restore the schema, and replace the webhooks by a policy that checks only the annotation.
	if err := driver.Get(t.Context(), name, definition); err != nil {
		t.Fatal(err)
	}
	definition.Spec = before.Spec
	if err := driver.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	careless(t, driver)
	find(t, run, "the annotation of a dry run lets anybody change CapstanMachineTemplate")
}

// counting counts the applied objects.
type counting struct {
	cluster
	applied int
}

// Apply implements check.Driver.
func (c *counting) Apply(ctx context.Context, o *unstructured.Unstructured, how check.Applying) (
	*unstructured.Unstructured, error,
) {
	c.applied++
	return c.cluster.Apply(ctx, o, how)
}

// leftOver returns an object with the kind and the name of the template that a live check creates.
func leftOver() *unstructured.Unstructured {
	o := templateWith(nil)
	o.SetName("capstan-verify-capstanmachinetemplate")
	return o
}

// find waits until a live check has a finding with this message. The API server learns of changes a moment later.
func find(t *testing.T, run func() *check.Report, message string) {
	t.Helper()
	await(t, func() error {
		report := run()
		for _, f := range report.Findings {
			if f.Check == "template-dry-run" && f.Rule == "IMT-12" && strings.Contains(f.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("no live check has the finding %q; the findings are %+v", message, report.Findings)
	})
}

// immutable adds to a schema the rule that many providers use.
func immutable(v *apiextensionsv1.CustomResourceDefinitionVersion) {
	template := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["template"]
	spec := template.Properties["spec"]
	spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{Rule: "self == oldSelf"})
	template.Properties["spec"] = spec
}

// careless replaces our webhooks by a policy that does not check whether a request is a dry run.
func careless(t *testing.T, c cluster) {
	t.Helper()
	if err := c.DeleteAllOf(t.Context(), &admissionv1.ValidatingWebhookConfiguration{}); err != nil {
		t.Fatal(err)
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	for into, text := range map[client.Object]string{
		policy: `{"metadata": {"name": "careless"}, "spec": {
			"matchConstraints": {"resourceRules": [{"apiGroups": ["infrastructure.capstan.dev"], "apiVersions": ["*"],
				"operations": ["UPDATE"], "resources": ["capstanmachinetemplates"]}]},
			"validations": [{"expression": "object.spec == oldObject.spec || has(object.metadata.annotations) && ` +
			`'topology.cluster.x-k8s.io/dry-run' in object.metadata.annotations"}]}}`,
		binding: `{"metadata": {"name": "careless"}, "spec": {"policyName": "careless", "validationActions": ["Deny"]}}`,
	} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), into); err != nil {
			t.Fatal(err)
		}
	}
}
