//go:build linux

package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	hooks "github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/extensionconfig"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// asCore makes this test binary act as the part of a core provider that calls runtime extensions; see beCore.
const asCore = "CAPSTAN_TEST_CORE"

// TestRuntimeExtension installs the runtime extension with the real clusterctl and runs it as its Deployment says: with
// only the rights of its ServiceAccount, and a certificate for its Service. The extension is discovered through the
// installed ExtensionConfig, and answers a hook for which it has to read the inventory.
func TestRuntimeExtension(t *testing.T) {
	w := newWorld(t)
	w.cluster()
	w.install(current)
	w.run("init", "--runtime-extension", "capstan:"+current)
	kube, err := apiserver.Bundle()
	w.must(err)
	p := w.runs("capstan-extension-system", "capstan-extension", image{
		files: map[string]string{"/capstan-extension": binary(t, "capstan-extension"), "/capstan-kube": kube},
		more:  []string{"--kubeconfig=%s"},
	})
	for _, o := range documents(t, w.generate("topology")) {
		w.must(w.api.Create(t.Context(), o))
	}
	proxy := w.network(map[string]string{
		"capstan-extension.capstan-extension-system.svc:443": fmt.Sprintf("127.0.0.1:%d", p.ports["hooks"]),
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	core := exec.CommandContext(ctx, os.Args[0])
	core.Env = []string{asCore + "=blue/c1", "KUBECONFIG=" + w.kubeconfig, "HTTPS_PROXY=" + proxy, "HOME=" + w.home}
	out, err := core.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ANSWER blocks: true, cluster needs 5 hosts, there are none") {
		t.Errorf("%v, want a blocking answer of the extension, got:\n%s", err, out)
	}
	w.stop(p)
	w.run("delete", "--runtime-extension", "capstan")
	if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: "capstan-extension-system", Name: "capstan-extension"},
		&corev1.ServiceAccount{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ServiceAccount is still there: %v", err)
	}
}

// beCore keeps ExtensionConfigs registered, asks the extensions whether a Cluster may be created, and prints their
// answer. cluster is NAMESPACE/NAME.
func beCore(cluster string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	settings, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), runtimev1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(settings, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	calls, err := hooks.New(hooks.Options{Reader: mgr.GetClient()})
	if err != nil {
		return err
	}
	defer calls.Close()
	r := &extensionconfig.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Runtime: calls}
	if err := r.SetupWithManager(mgr, controller.Options{UsePriorityQueue: ptr.To(false)}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	err = ask(ctx, mgr.GetAPIReader(), calls, cluster)
	cancel()
	return errors.Join(err, <-ended)
}

// ask waits until the extension is discovered, and calls it.
func ask(ctx context.Context, reader client.Reader, calls *hooks.Client, cluster string) error {
	namespace, name, _ := strings.Cut(cluster, "/")
	c := &clusterv1.Cluster{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, c); err != nil {
		return err
	}
	config := &runtimev1.ExtensionConfig{}
	for !meta.IsStatusConditionTrue(config.Status.Conditions, runtimev1.ExtensionConfigDiscoveredCondition) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the extension isn't discovered: %v", config.Status.Conditions)
		case <-time.After(50 * time.Millisecond):
		}
		if err := reader.Get(ctx, client.ObjectKey{Name: "capstan"}, config); err != nil {
			return err
		}
	}
	// The status is written before the registry is updated.
	response := &runtimehooksv1.BeforeClusterCreateResponse{}
	for response.Message == "" && ctx.Err() == nil {
		if err := calls.CallAllExtensions(ctx, runtimehooksv1.BeforeClusterCreate, c,
			&runtimehooksv1.BeforeClusterCreateRequest{Cluster: *c}, response); err != nil {
			return err
		}
	}
	fmt.Printf("ANSWER blocks: %t, %s\n", response.RetryAfterSeconds > 0, response.Message)
	return ctx.Err()
}
