// Package webhook has what the API server asks about our objects before it stores or returns them: the conversion
// between API versions, and the checks that the rules in the schemas (CEL) can't do, because they need to know who
// asks, or have no bound.
//
// What is checked where: limits, formats, immutable fields, and what one field says about another are rules in the
// types of package api. Here are the immutability of templates, which does not hold for dry runs of the topology
// controller (IMT-12); labels, annotations and label selectors, whose grammar is in a library; and the annotation by
// which a cluster is managed by somebody else.
package webhook

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/capstan-dev/capstan/api/v1beta1"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// AddToScheme adds all API versions of our types. Setup needs them.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(v1beta1.AddToScheme(scheme), v1beta2.AddToScheme(scheme))
}

// Option changes what the webhooks refuse.
type Option func(*settings)

// settings are what options change.
type settings struct{ noClusterClasses bool }

// NoClusterClasses refuses new CapstanClusterTemplates, and changes of them, which are for ClusterClasses only: Cluster
// API's feature gate ClusterTopology is closed.
func NoClusterClasses() Option { return func(s *settings) { s.noClusterClasses = true } }

// Setup adds the webhooks to the manager's webhook server, whose scheme must have been through AddToScheme. The
// configurations that make the API server ask them are in config/webhook; those for conversion belong into the
// CustomResourceDefinitions.
func Setup(mgr ctrl.Manager, options ...Option) error {
	var o settings
	for _, option := range options {
		option(&o)
	}
	for kind, err := range map[string]error{
		"CapstanCluster": ctrl.NewWebhookManagedBy(mgr, &v1beta2.CapstanCluster{}).
			WithValidator(clusters{}).
			WithConverter(conversion.NewHubSpokeConverter(&v1beta2.CapstanCluster{},
				conversion.NewSpokeConverter(&v1beta1.CapstanCluster{}, v1beta1.ConvertClusterFromHub,
					v1beta1.ConvertClusterToHub))).
			Complete(),
		"CapstanClusterTemplate": ctrl.NewWebhookManagedBy(mgr, &v1beta2.CapstanClusterTemplate{}).
			WithValidator(clusterTemplates{closed: o.noClusterClasses}).
			WithConverter(conversion.NewHubSpokeConverter(&v1beta2.CapstanClusterTemplate{},
				conversion.NewSpokeConverter(&v1beta1.CapstanClusterTemplate{}, v1beta1.ConvertClusterTemplateFromHub,
					v1beta1.ConvertClusterTemplateToHub))).
			Complete(),
		"CapstanMachine": ctrl.NewWebhookManagedBy(mgr, &v1beta2.CapstanMachine{}).
			WithValidator(machines{}).
			WithConverter(conversion.NewHubSpokeConverter(&v1beta2.CapstanMachine{},
				conversion.NewSpokeConverter(&v1beta1.CapstanMachine{}, v1beta1.ConvertMachineFromHub,
					v1beta1.ConvertMachineToHub))).
			Complete(),
		"CapstanMachineTemplate": ctrl.NewWebhookManagedBy(mgr, &v1beta2.CapstanMachineTemplate{}).
			WithValidator(machineTemplates{}).
			WithConverter(conversion.NewHubSpokeConverter(&v1beta2.CapstanMachineTemplate{},
				conversion.NewSpokeConverter(&v1beta1.CapstanMachineTemplate{}, v1beta1.ConvertMachineTemplateFromHub,
					v1beta1.ConvertMachineTemplateToHub))).
			Complete(),
	} {
		if err != nil {
			return fmt.Errorf("adding the webhooks of %s: %w", kind, err)
		}
	}
	return nil
}
