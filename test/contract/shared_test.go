//go:build linux

package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2/textlogger"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	webhookconfig "github.com/capstan-dev/capstan/config/webhook"
	"github.com/capstan-dev/capstan/provider"
	"github.com/capstan-dev/capstan/provider/migration"
	infrawebhook "github.com/capstan-dev/capstan/provider/webhook"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// limit is the time limit for each wait. It is long because the machine may be busy.
const limit = 90 * time.Second

// shared holds what all tests of this package use: one API server with upstream's definitions, and with our definitions
// and their webhooks.
var shared struct {
	*apiserver.Server
	scheme *runtime.Scheme
	admin  client.WithWatch
	// ours are our definitions, as installed.
	ours []*apiextensionsv1.CustomResourceDefinition
	// audit is the path of the audit log.
	audit string
	dir   string

	stop  context.CancelFunc
	ended chan error
}

func startShared() (err error) {
	log := logr.Discard()
	if os.Getenv("CAPSTAN_TEST_LOG") != "" { // the log of all controllers of this process, including core's
		log = textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(4)))
	}
	ctrl.SetLogger(log)
	if shared.dir, err = os.MkdirTemp("", "capstan-contract-"); err != nil {
		return err
	}
	shared.audit = filepath.Join(shared.dir, "audit.log")
	if shared.ours, err = apiserver.Capstan(); err != nil {
		return err
	}
	core, err := apiserver.Core()
	if err != nil {
		return err
	}
	kubeadm, err := apiserver.Kubeadm()
	if err != nil {
		return err
	}
	for _, crd := range kubeadm { // upstream's release adds the label
		metav1.SetMetaDataLabel(&crd.ObjectMeta, "cluster.x-k8s.io/"+string(v1beta2), string(v1beta2))
	}
	shared.Server, err = apiserver.Start(apiserver.Options{
		CRDs: append(core, kubeadm...), Converted: shared.ours, AuditLog: shared.audit, Policies: true,
		Controllers: []string{"clusterrole-aggregation-controller"},
	})
	if err != nil {
		return err
	}
	shared.Config.QPS, shared.Config.Burst = 500, 1000
	shared.scheme = runtime.NewScheme()
	if err := errors.Join(provider.AddToScheme(shared.scheme), apiextensionsv1.AddToScheme(shared.scheme),
		clusterv1.AddToScheme(shared.scheme),
		controlplanev1.AddToScheme(shared.scheme), bootstrapv1.AddToScheme(shared.scheme),
		infrawebhook.AddToScheme(shared.scheme)); err != nil {
		return err
	}
	if shared.admin, err = client.NewWithWatch(shared.Config, client.Options{Scheme: shared.scheme}); err != nil {
		return err
	}
	if err := bindManager(context.Background()); err != nil {
		return err
	}
	return serveWebhooks()
}

// serveWebhooks serves the conversion and admission webhooks of our types and migrates stored objects, as
// capstan-manager does, with its rights.
func serveWebhooks() error {
	w := shared.Webhooks
	mgr, err := ctrl.NewManager(managerConfig, ctrl.Options{
		Scheme: shared.scheme, Metrics: server.Options{BindAddress: "0"}, Cache: cache.Options{},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: w.LocalServingHost, Port: w.LocalServingPort, CertDir: w.LocalServingCertDir,
		}),
	})
	if err != nil {
		return err
	}
	if err := errors.Join(infrawebhook.Setup(mgr), migration.Setup(context.Background(), mgr)); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	shared.stop, shared.ended = stop, make(chan error, 1)
	go func() { shared.ended <- mgr.Start(ctx) }()
	answers := mgr.GetWebhookServer().StartedChecker()
	for deadline := time.Now().Add(limit); ; {
		err := answers(nil)
		if err == nil {
			return admit()
		}
		if time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// admit registers the admission webhooks with the API server.
func admit() error {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.Unmarshal(webhookconfig.Manifests, c); err != nil {
		return fmt.Errorf("reading config/webhook: %w", err)
	}
	if len(c.Webhooks) == 0 {
		return errors.New("config/webhook has no webhooks")
	}
	w := shared.Webhooks
	for i := range c.Webhooks {
		url := fmt.Sprintf("https://%s:%d%s", w.LocalServingHost, w.LocalServingPort,
			*c.Webhooks[i].ClientConfig.Service.Path)
		c.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: w.LocalServingCAData}
	}
	return shared.admin.Create(context.Background(), c)
}

func stopShared() error {
	var errs []error
	if shared.stop != nil {
		shared.stop()
		errs = append(errs, <-shared.ended)
	}
	if shared.Server != nil {
		errs = append(errs, shared.Server.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(shared.dir))...)
}
