// Package webhook implements the webhooks that the API server calls before it stores or returns our objects: conversion
// between API versions, and checks that CEL rules in the schemas can't do. Such checks depend on who asks, or concern
// fields without a bound.
//
// Rules in the types of package api check limits, formats, immutable fields and relations between fields. This package
// checks that templates don't change, except in dry runs of the topology controller (contract rule IMT-12); that
// labels, annotations and label selectors are well-formed, which requires a library; and that nobody removes the
// annotation that says that somebody else manages a cluster.
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

// AddToScheme adds all API versions of our types to the scheme. Setup needs them.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(v1beta1.AddToScheme(scheme), v1beta2.AddToScheme(scheme))
}

// Option changes what the webhooks refuse.
type Option func(*settings)

// settings holds what options change.
type settings struct{ noClusterClasses bool }

// NoClusterClasses refuses new and changed CapstanClusterTemplates. Use it when Cluster API's feature gate
// ClusterTopology is off: these templates serve ClusterClasses only.
func NoClusterClasses() Option { return func(s *settings) { s.noClusterClasses = true } }

// Setup adds the webhooks to the manager's webhook server. Call AddToScheme on the manager's scheme first. The
// configurations that make the API server call the webhooks are in config/webhook; those for conversion belong in the
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
