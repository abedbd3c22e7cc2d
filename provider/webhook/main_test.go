package webhook_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	manifests "github.com/capstan-dev/capstan/config/webhook"
	"github.com/capstan-dev/capstan/provider/webhook"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// patience bounds each wait. It is long because the machine may be busy.
const patience = time.Minute

// ns is the namespace of all objects in these tests.
const ns = "default"

// live is an API server with our definitions and webhooks, shared by the tests of this package.
var live struct {
	*apiserver.Server
	api         client.Client
	definitions []*apiextensionsv1.CustomResourceDefinition
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	stop, err := start()
	defer func() {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = max(code, 1)
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	return m.Run()
}

// start starts everything. The returned function stops it, and must be called even after an error.
func start() (stop func() error, err error) {
	stop = func() error { return nil }
	ctrl.SetLogger(logr.Discard())
	if live.definitions, err = apiserver.Capstan(); err != nil {
		return stop, err
	}
	live.Server, err = apiserver.Start(apiserver.Options{Converted: live.definitions})
	stop = live.Server.Stop
	if err != nil {
		return stop, err
	}
	live.Config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		webhook.AddToScheme(scheme)); err != nil {
		return stop, err
	}
	if live.api, err = client.New(live.Config, client.Options{Scheme: scheme}); err != nil {
		return stop, err
	}
	at := live.Webhooks
	mgr, err := ctrl.NewManager(live.Config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: at.LocalServingHost, Port: at.LocalServingPort, CertDir: at.LocalServingCertDir,
		}),
	})
	if err != nil {
		return stop, err
	}
	if err := webhook.Setup(mgr); err != nil {
		return stop, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = func() error {
		cancel()
		return errors.Join(<-ended, live.Server.Stop())
	}
	if err := await(func() error { return mgr.GetWebhookServer().StartedChecker()(nil) }); err != nil {
		return stop, err
	}
	return stop, register(ctx)
}

// register makes the API server call the admission webhooks.
func register(ctx context.Context) error {
	config := &admissionv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(manifests.Manifests, config); err != nil {
		return err
	}
	for i := range config.Webhooks {
		c := &config.Webhooks[i].ClientConfig
		url := fmt.Sprintf("https://%s:%d%s", live.Webhooks.LocalServingHost, live.Webhooks.LocalServingPort, *c.Service.Path)
		*c = admissionv1.WebhookClientConfig{URL: &url, CABundle: live.Webhooks.LocalServingCAData}
	}
	if err := live.api.Create(ctx, config); err != nil {
		return err
	}
	// The API server notices the registration a moment later. From then on, it refuses invalid objects.
	bad := template("probe", map[string]any{
		"hostSelector": map[string]any{"matchLabels": map[string]any{"not a key": "x"}},
	})
	return await(func() error {
		if err := live.api.Create(ctx, bad.DeepCopy(), client.DryRunAll); err == nil {
			return errors.New("the API server does not ask the webhooks")
		}
		return nil
	})
}

// await waits until the function returns no error. It returns the last error if that takes too long.
func await(check func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
