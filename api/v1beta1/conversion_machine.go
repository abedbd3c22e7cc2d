package v1beta1

import (
	"context"

	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

type machineContent = content[v1beta2.CapstanMachineSpec, v1beta2.CapstanMachineStatus]

// ConvertMachineToHub makes the v1beta2 object dst from the v1beta1 object src. It never fails, and ignores the
// context: conversion webhooks need this signature.
func ConvertMachineToHub(_ context.Context, src *CapstanMachine, dst *v1beta2.CapstanMachine) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	to := machineToHub(src, recall[machineContent](dst))
	dst.Spec, dst.Status = to.Spec, to.Status
	return nil
}

// ConvertMachineFromHub makes the v1beta1 object dst from the v1beta2 object src.
func ConvertMachineFromHub(_ context.Context, src *v1beta2.CapstanMachine, dst *CapstanMachine) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = machineSpecFromHub(src.Spec)
	dst.Spec.FailureDomain = pointer(src.Status.FailureDomain)
	reason, message := src.Status.Failure()
	dst.Status = CapstanMachineStatus{
		Ready:          deref(src.Status.Initialization.Provisioned),
		FailureReason:  pointer(reason),
		FailureMessage: pointer(message),
		Conditions:     conditionsFromHub(src.Status.Conditions, src.Status.Deprecated.V1Beta1.Conditions),
		Host:           src.Status.Host,
	}
	for _, a := range src.Status.Addresses {
		dst.Status.Addresses = append(dst.Status.Addresses,
			clusterv1beta1.MachineAddress{Type: clusterv1beta1.MachineAddressType(a.Type), Address: a.Address})
	}
	return remember(dst, machineContent{src.Spec, src.Status}, machineToHub(dst, nil))
}

// machineToHub makes the content of the v1beta2 object. old is the object's earlier content, or nil; it supplies what
// v1beta1 can't represent.
func machineToHub(src *CapstanMachine, old *machineContent) (to machineContent) {
	if old == nil {
		old = &machineContent{}
	}
	to.Spec = machineSpecToHub(src.Spec)
	conditions := conditionsToHub(src.Status.Conditions,
		&hubConditions{old.Status.Conditions, old.Status.Deprecated.V1Beta1.Conditions})
	to.Status = v1beta2.CapstanMachineStatus{
		Initialization: v1beta2.CapstanMachineInitialization{
			Provisioned: provisioned(src.Status.Ready, old.Status.Initialization.Provisioned),
		},
		Conditions:    conditions.conditions,
		FailureDomain: deref(src.Spec.FailureDomain),
		Host:          src.Status.Host,
	}
	kept := &to.Status.Deprecated.V1Beta1
	kept.Conditions = conditions.written
	kept.FailureReason, kept.FailureMessage = failureToHub(deref(src.Status.FailureReason),
		deref(src.Status.FailureMessage),
		to.Status.Conditions, &old.Status.Deprecated.V1Beta1)
	for _, a := range src.Status.Addresses {
		to.Status.Addresses = append(to.Status.Addresses,
			clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(a.Type), Address: a.Address})
	}
	return to
}

// machineSpecToHub omits the failure domain, which is not part of the spec in v1beta2.
func machineSpecToHub(src CapstanMachineSpec) v1beta2.CapstanMachineSpec {
	return v1beta2.CapstanMachineSpec{
		ProviderID: deref(src.ProviderID), HostSelector: src.HostSelector,
		HostRequirements: v1beta2.HostRequirements(src.HostRequirements),
	}
}

func machineSpecFromHub(src v1beta2.CapstanMachineSpec) CapstanMachineSpec {
	return CapstanMachineSpec{
		ProviderID: pointer(src.ProviderID), HostSelector: src.HostSelector,
		HostRequirements: HostRequirements(src.HostRequirements),
	}
}

// ConvertMachineTemplateToHub makes the v1beta2 object dst from the v1beta1 object src.
func ConvertMachineTemplateToHub(_ context.Context, src *CapstanMachineTemplate,
	dst *v1beta2.CapstanMachineTemplate) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = clusterv1.ObjectMeta{
		Labels: src.Spec.Template.ObjectMeta.Labels, Annotations: src.Spec.Template.ObjectMeta.Annotations,
	}
	dst.Spec.Template.Spec = machineSpecToHub(src.Spec.Template.Spec)
	if domain := deref(src.Spec.Template.Spec.FailureDomain); domain != "" {
		if dst.Annotations == nil {
			dst.Annotations = map[string]string{}
		}
		dst.Annotations[FailureDomainAnnotation] = domain
	}
	return nil
}

// ConvertMachineTemplateFromHub makes the v1beta1 object dst from the v1beta2 object src.
func ConvertMachineTemplateFromHub(_ context.Context, src *v1beta2.CapstanMachineTemplate,
	dst *CapstanMachineTemplate) error {
	src = src.DeepCopy()
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = clusterv1beta1.ObjectMeta{
		Labels: src.Spec.Template.ObjectMeta.Labels, Annotations: src.Spec.Template.ObjectMeta.Annotations,
	}
	dst.Spec.Template.Spec = machineSpecFromHub(src.Spec.Template.Spec)
	if domain := dst.Annotations[FailureDomainAnnotation]; domain != "" {
		delete(dst.Annotations, FailureDomainAnnotation)
		dst.Spec.Template.Spec.FailureDomain = &domain
	}
	return nil
}
