//go:build linux

package contract

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/reconcilers/kubeadmconfig"
	"sigs.k8s.io/cluster-api/controlplane/kubeadm/reconcilers/kubeadmcontrolplane"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// startKubeadm starts upstream's reconcilers, including those of the kubeadm providers, for one namespace.
func startKubeadm(ctx context.Context, namespace string) (stop func() error, err error) {
	if err := bindKubeadm(ctx); err != nil {
		return nil, err
	}
	return startUpstream(ctx, namespace, &objectWrites{}, addCore, addKubeadm)
}

func addKubeadm(ctx context.Context, mgr ctrl.Manager, u upstream) error {
	// Core's cache contains only the Secrets that core needs.
	secrets, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return err
	}
	err = (&kubeadmconfig.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), SecretCachingClient: secrets, ClusterCache: u.clusters,
		TokenTTL: kubeadmconfig.DefaultTokenTTL,
	}).SetupWithManager(ctx, mgr, upstreamOptions)
	if err != nil {
		return fmt.Errorf("adding upstream's controller of KubeadmConfig: %w", err)
	}
	err = (&kubeadmcontrolplane.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), SecretCachingClient: secrets, ClusterCache: u.clusters,
		EtcdDialTimeout: time.Second, EtcdCallTimeout: time.Second, EtcdLogger: zap.NewNop(),
		RemoteConditionsGracePeriod: 5 * time.Minute,
	}).SetupWithManager(ctx, mgr, upstreamOptions)
	if err != nil {
		return fmt.Errorf("adding upstream's controller of KubeadmControlPlane: %w", err)
	}
	return nil
}

// bindKubeadm gives core's user the roles of the kubeadm providers, too.
var bindKubeadm = func() func(context.Context) error {
	var once sync.Once
	var err error
	return func(ctx context.Context) error {
		once.Do(func() { err = bindKubeadmOnce(ctx) })
		return err
	}
}()

func bindKubeadmOnce(ctx context.Context) error {
	module, err := apiserver.Module("sigs.k8s.io/cluster-api")
	if err != nil {
		return err
	}
	for _, file := range []string{
		"bootstrap/kubeadm/config/rbac/role.yaml", "controlplane/kubeadm/config/rbac/role.yaml",
		"controlplane/kubeadm/config/rbac/aggregated_role.yaml",
	} {
		data, err := os.ReadFile(filepath.Join(module, file))
		if err != nil {
			return err
		}
		role := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal(data, role); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		role.Name = "kubeadm-" + filepath.Base(
			filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(file)))),
		) + "-" + role.Name
		to := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: coreUser}
		if err := bind(ctx, role, to); err != nil {
			return err
		}
	}
	return nil
}

// newControlPlane creates a Cluster whose control plane is a KubeadmControlPlane of one machine, with a health check.
func (w *world) newControlPlane(cluster string, remediation controlplanev1.KubeadmControlPlaneRemediationSpec) {
	w.Helper()
	w.upstreamCluster(cluster, func(c *clusterv1.Cluster) {
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: cluster,
		}
	})
	template := w.newObject("CapstanMachineTemplate")
	template.SetNamespace(w.ns)
	template.SetName(cluster)
	template.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{}}}
	w.create(template)
	w.create(&controlplanev1.KubeadmControlPlane{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.ns, Name: cluster, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		},
		Spec: controlplanev1.KubeadmControlPlaneSpec{
			Replicas: ptr.To[int32](1), Version: "v1.36.3", Remediation: remediation,
			KubeadmConfigSpec: bootstrapv1.KubeadmConfigSpec{Format: bootstrapv1.CloudConfig},
			MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
				Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
					InfrastructureRef: clusterv1.ContractVersionedObjectReference{
						APIGroup: infrav1.GroupVersion.Group, Kind: "CapstanMachineTemplate", Name: cluster,
					},
				},
			},
		},
	})
	w.create(w.healthCheck(cluster+"-cp", cluster, map[string]string{clusterv1.MachineControlPlaneLabel: ""}))
}

// healthCheck returns a MachineHealthCheck whose start-up timeout is longer than any test.
func (w *world) healthCheck(name, cluster string, labels map[string]string) *clusterv1.MachineHealthCheck {
	return &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: cluster, Selector: metav1.LabelSelector{MatchLabels: labels},
			Checks: clusterv1.MachineHealthCheckChecks{NodeStartupTimeoutSeconds: ptr.To[int32](3600)},
		},
	}
}
