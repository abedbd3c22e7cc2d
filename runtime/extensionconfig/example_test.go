package extensionconfig_test

import (
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/extensionconfig"
)

// What a custom management plane needs so that extensions are registered, called and measured, and their registrations
// checked. The client is then passed to Cluster API's reconcilers.
func Example() {
	setup := func(mgr ctrl.Manager) error {
		calls, err := client.New(client.Options{Reader: mgr.GetClient(), Metrics: metrics.Registry})
		if err != nil {
			return err
		}
		r := &extensionconfig.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Runtime: calls}
		if err := r.SetupWithManager(mgr, controller.Options{}); err != nil {
			return err
		}
		return ctrl.NewWebhookManagedBy(mgr, &runtimev1.ExtensionConfig{}).
			WithValidator(&extensionconfig.Validator{}).Complete()
	}
	_ = setup
}
