package controllers

import (
	"context"
	"fmt"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	bootstrapadmission "sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"
	controlplaneadmission "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	controlplaneconversion "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	coreconversion "sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/provider/webhook"
	"github.com/capstan-dev/capstan/runtime/extensionconfig"
)

// webhooks adds the webhooks of all three providers and our own.
func (s *setter) webhooks(context.Context) error {
	getter := apiVersions{reader: s.GetClient()}.latest
	coreconversion.SetAPIVersionGetter(getter)
	controlplaneconversion.SetAPIVersionGetter(getter)

	c := s.GetClient()
	for kind, w := range map[string]interface{ SetupWebhookWithManager(ctrl.Manager) error }{
		"ClusterClass":              &coreadmission.ClusterClass{Client: c},
		"Cluster":                   &coreadmission.Cluster{Client: c, ClusterCacheReader: s.deps.ClusterCache},
		"Machine":                   &coreadmission.Machine{},
		"MachineSet":                &coreadmission.MachineSet{},
		"MachineDeployment":         &coreadmission.MachineDeployment{},
		"MachineDrainRule":          &coreadmission.MachineDrainRule{},
		"MachinePool":               &coreadmission.MachinePool{},
		"MachineHealthCheck":        &coreadmission.MachineHealthCheck{},
		"ClusterResourceSet":        &coreadmission.ClusterResourceSet{},
		"ClusterResourceSetBinding": &coreadmission.ClusterResourceSetBinding{},
		"ExtensionConfig":           extensionConfigs{},
		// Don't read from the cache, which would then hold all claims.
		"IPAddress":                   &coreadmission.IPAddress{Client: s.GetAPIReader()},
		"IPAddressClaim":              &coreadmission.IPAddressClaim{},
		"KubeadmConfig":               &bootstrapadmission.KubeadmConfig{},
		"KubeadmConfigTemplate":       &bootstrapadmission.KubeadmConfigTemplate{},
		"KubeadmControlPlane":         &controlplaneadmission.KubeadmControlPlane{},
		"KubeadmControlPlane's scale": &controlplaneadmission.ScaleValidator{Client: c},
		"KubeadmControlPlaneTemplate": &controlplaneadmission.KubeadmControlPlaneTemplate{},
	} {
		if err := w.SetupWebhookWithManager(s.Manager); err != nil {
			return fmt.Errorf("adding the webhook of %s: %w", kind, err)
		}
	}
	if !s.gates.On(feature.ClusterTopology) {
		return webhook.Setup(s.Manager, webhook.NoClusterClasses())
	}
	return webhook.Setup(s.Manager)
}

// extensionConfigs is upstream's webhook of ExtensionConfigs, followed by our client's own validation.
type extensionConfigs struct{}

// SetupWebhookWithManager adds the webhook to a manager.
func (extensionConfigs) SetupWebhookWithManager(mgr ctrl.Manager) error {
	upstream := &coreadmission.ExtensionConfig{}
	return ctrl.NewWebhookManagedBy(mgr, &runtimev1.ExtensionConfig{}).
		WithDefaulter(upstream).
		WithValidator(&extensionconfig.Validator{Next: upstream}).
		WithConverter(coreconversion.ExtensionConfig).
		Complete()
}
