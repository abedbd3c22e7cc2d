package bootstrapdata

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/provider/identity"
)

var fooConfig = schema.GroupVersionKind{Group: "bootstrap.cluster.x-k8s.io", Version: "v1", Kind: "FooConfig"}

// machine returns a Machine of cluster demo that names a Secret but has no configRef.
func machine(secret string) *clusterv1.Machine {
	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w1", UID: "uid-of-w1"},
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo", Bootstrap: clusterv1.Bootstrap{DataSecretName: &secret},
		},
	}
}

// origin holds what a bootstrap provider creates for Machine w1; an edit turns it into an attack.
type origin struct {
	machine *clusterv1.Machine
	config  *unstructured.Unstructured
	secret  *corev1.Secret
}

func newOrigin() *origin {
	m := machine("w1-data")
	m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: fooConfig.Group, Kind: fooConfig.Kind, Name: "w1-config",
	}
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(fooConfig)
	config.SetNamespace("default")
	config.SetName("w1-config")
	config.SetUID("uid-of-config")
	config.SetOwnerReferences(controller(clusterv1.GroupVersion.WithKind("Machine"), "w1", "uid-of-w1"))
	return &origin{m, config, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "w1-data", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
			OwnerReferences: controller(fooConfig, "w1-config", "uid-of-config"),
		},
		Data: map[string][]byte{"value": []byte("x")},
	}}
}

func controller(kind schema.GroupVersionKind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: uid, Controller: ptr.To(true),
	}}
}

// read reads the data as the provider does.
func (o *origin) read(t *testing.T) error {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(fooConfig, &unstructured.Unstructured{})
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{fooConfig.GroupVersion()})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.Add(fooConfig, meta.RESTScopeNamespace)
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(o.config, o.secret).Build()
	_, err := Read(t.Context(), c, mapper, o.machine)
	return err
}

func TestDataOfThisMachineIsTaken(t *testing.T) {
	for name, edit := range map[string]func(*origin){
		"a Secret that a bootstrap provider has made": func(*origin) {},
		"a Secret that somebody has labelled, without a configRef": func(o *origin) {
			o.machine = machine("w1-data")
			o.secret.OwnerReferences = nil
			o.secret.Labels = map[string]string{infrav1.BootstrapDataLabel: "yes"}
		},
		"a Secret with further owners": func(o *origin) {
			o.secret.OwnerReferences = append(o.secret.OwnerReferences, metav1.OwnerReference{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "demo", UID: "demo",
			})
		},
		"a Secret whose owner is given in an older version of the bootstrap provider's API": func(o *origin) {
			o.secret.OwnerReferences[0].APIVersion = fooConfig.Group + "/v1alpha1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin()
			edit(o)
			if err := o.read(t); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDataOfOthersIsRefused(t *testing.T) {
	named := func(secret string) func(*origin) {
		return func(o *origin) { o.machine.Spec.Bootstrap.DataSecretName, o.secret.Name = &secret, secret }
	}
	alone := func(edit func(*origin)) func(*origin) { // the Machine has no configRef
		return func(o *origin) {
			o.machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{}
			edit(o)
		}
	}
	cases := map[string]struct {
		edit func(*origin)
		says string
	}{
		"a Secret without our label, and no configRef": {alone(func(*origin) {}), infrav1.BootstrapDataLabel},
		"a Secret without a controller": {func(o *origin) {
			o.secret.OwnerReferences = nil
		}, "its controller is not FooConfig"},
		"a Secret with our label, but a configRef": {func(o *origin) {
			o.secret.OwnerReferences, o.secret.Labels = nil, map[string]string{infrav1.BootstrapDataLabel: ""}
		}, "its controller is not FooConfig"},
		"a Secret of another configuration": {func(o *origin) {
			o.secret.OwnerReferences = controller(fooConfig, "w2-config", "uid-of-another")
		}, "its controller is not FooConfig"},
		"a Secret of an earlier configuration of that name": {func(o *origin) {
			o.secret.OwnerReferences = controller(fooConfig, "w1-config", "uid-of-earlier")
		}, "its controller is not FooConfig"},
		"a Secret that the configuration owns but does not control": {func(o *origin) {
			o.secret.OwnerReferences[0].Controller = nil
		}, "its controller is not FooConfig"},
		"a Secret that a bootstrap provider was made to adopt": {func(o *origin) {
			o.secret.Labels = nil
		}, clusterv1.ClusterNameLabel},
		"a Secret of another cluster": {func(o *origin) {
			o.secret.Labels[clusterv1.ClusterNameLabel] = "other"
		}, clusterv1.ClusterNameLabel},
		"a configuration of another Machine": {func(o *origin) {
			o.config.SetOwnerReferences(controller(clusterv1.GroupVersion.WithKind("Machine"), "w2", "uid-of-w2"))
		}, "but does not control it"},
		"a configuration without a controller": {func(o *origin) {
			o.config.SetOwnerReferences(nil)
		}, "but does not control it"},
		"a configuration that a MachineSet still controls": {func(o *origin) {
			o.config.SetOwnerReferences(controller(clusterv1.GroupVersion.WithKind("MachineSet"), "set", "uid-of-w1"))
		}, "but does not control it"},
		"a configuration that doesn't exist": {func(o *origin) { o.config.SetName("w3-config") }, "does not exist"},
		"data that was delivered to a host": {func(o *origin) {
			o.secret.OwnerReferences = append(o.secret.OwnerReferences, metav1.OwnerReference{
				APIVersion: infrav1.GroupVersion.String(), Kind: "CapstanHost", Name: "host-02", UID: "uid-of-host",
			})
		}, "CapstanHost host-02"},
		"a Secret that a host needs": {alone(func(o *origin) {
			o.secret.Labels = map[string]string{identity.Label: "host-02", infrav1.BootstrapDataLabel: ""}
		}), "CapstanHost host-02"},
	}
	for _, purpose := range []string{"kubeconfig", "ca", "etcd", "sa", "proxy", "apiserver-etcd-client"} {
		cases["with a configRef, a name that ends in -"+purpose] = struct {
			edit func(*origin)
			says string
		}{named("demo-" + purpose), "give the Machine and its bootstrap configuration another name"}
		cases["without a configRef, a name that ends in -"+purpose] = struct {
			edit func(*origin)
			says string
		}{alone(func(o *origin) {
			named("demo-" + purpose)(o)
			o.secret.Labels = map[string]string{infrav1.BootstrapDataLabel: ""}
		}), "give the Machine and its bootstrap configuration another name"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := newOrigin()
			c.edit(o)
			err := o.read(t)
			refused := (*RefusedError)(nil)
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) || apierrors.IsNotFound(err) {
				t.Errorf("error %v, want a refusal that says %q", err, c.says)
			}
		})
	}
}
