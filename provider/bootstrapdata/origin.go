package bootstrapdata

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
)

// RefusedError explains why a Secret that a Machine names is not accepted as its bootstrap data.
type RefusedError struct {
	// Secret is the name of the Secret.
	Secret string
	// Why says what is wrong and what to do.
	Why string
}

// Error says what is wrong and what to do.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("Secret %s is refused as bootstrap data: %s", e.Secret, e.Why)
}

// refuseName refuses the names of Secrets in which Cluster API keeps a cluster's kubeconfig, keys and certificates.
func refuseName(name string) error {
	if !secret.HasPurposeSuffix(name) {
		return nil
	}
	suffix := name[strings.LastIndex(name, "-"):]
	return &RefusedError{name, "Secrets whose names end in " + suffix +
		" hold credentials of clusters: give the Machine and its bootstrap configuration another name"}
}

// checkOrigin checks that a Secret holds bootstrap data for exactly this Machine. The name alone proves nothing.
// Anybody who may write a Machine can put into it the name of a Secret that they may not read. Without this check, they
// would get the Secret's content on a host.
//
// With a configRef, the Secret must look as the contract requires: it has the label of the cluster, its controller is
// the bootstrap configuration, and the controller of the configuration is this Machine. Both controllers are compared
// by uid. Without a configRef, the Secret must have the label infrav1.BootstrapDataLabel, which only somebody who may
// write the Secret can set.
func checkOrigin(
	ctx context.Context, reader client.Reader, mapper meta.RESTMapper, m *clusterv1.Machine, s *corev1.Secret,
) error {
	if of, ok := hostOf(s); ok {
		return &RefusedError{s.Name, fmt.Sprintf("it holds credentials of CapstanHost %s", of)}
	}
	ref := m.Spec.Bootstrap.ConfigRef
	if !ref.IsDefined() {
		if _, ok := s.Labels[infrav1.BootstrapDataLabel]; ok {
			return nil
		}
		return &RefusedError{s.Name, fmt.Sprintf("Machine %s names it without a configRef, and it has no label %s: add the "+
			"label if the Secret is meant to be bootstrap data", m.Name, infrav1.BootstrapDataLabel)}
	}
	config, err := configOf(ctx, reader, mapper, m)
	if err != nil {
		return err
	}
	what := ref.Kind + " " + ref.Name
	switch of := metav1.GetControllerOf(config); {
	case of == nil || of.Kind != "Machine" || of.UID != m.UID:
		return &RefusedError{s.Name, fmt.Sprintf("Machine %[2]s refers to %[1]s but does not control it: each Machine "+
			"needs its own bootstrap configuration", what, m.Name)}
	}
	switch by := metav1.GetControllerOf(s); {
	case by == nil || by.Kind != ref.Kind || by.UID != config.UID:
		return &RefusedError{s.Name, fmt.Sprintf("its controller is not %s, to which Machine %s refers: let the bootstrap "+
			"provider set dataSecretName", what, m.Name)}
	case s.Labels[clusterv1.ClusterNameLabel] != m.Spec.ClusterName:
		return &RefusedError{s.Name, fmt.Sprintf("its label %s is not %q: the bootstrap provider did not create it for "+
			"this cluster", clusterv1.ClusterNameLabel, m.Spec.ClusterName)}
	}
	return nil
}

// hostOf returns the name of the host that a Secret belongs to.
func hostOf(s *corev1.Secret) (string, bool) {
	if name, ok := s.Labels[identity.Label]; ok {
		return name, true
	}
	for _, owner := range s.OwnerReferences {
		if owner.Kind == "CapstanHost" && strings.HasPrefix(owner.APIVersion, infrav1.GroupVersion.Group+"/") {
			return owner.Name, true
		}
	}
	return "", false
}

// configOf returns the metadata of the bootstrap configuration that a Machine refers to.
func configOf(
	ctx context.Context, reader client.Reader, mapper meta.RESTMapper, m *clusterv1.Machine,
) (*metav1.PartialObjectMetadata, error) {
	ref := m.Spec.Bootstrap.ConfigRef
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind})
	if err != nil {
		return nil, fmt.Errorf("looking up the bootstrap configuration of Machine %s: %w", m.Name, err)
	}
	config := &metav1.PartialObjectMetadata{}
	config.SetGroupVersionKind(mapping.GroupVersionKind)
	err = reader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, config)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &RefusedError{*m.Spec.Bootstrap.DataSecretName, fmt.Sprintf(
			"%s %s, to which Machine %s refers, does not exist", ref.Kind, ref.Name, m.Name)}
	case err != nil:
		return nil, fmt.Errorf("reading %s %s of Machine %s: %w", ref.Kind, ref.Name, m.Name, err)
	}
	return config, nil
}
