package plane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/plane/progress"
	"github.com/capstan-dev/capstan/templates"
)

// TestPlane follows the life of a plane: a first start, use, killed children, a second start, a power failure, a third
// start, and the end.
func TestPlane(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plane")
	ctx := bounded(t)

	first := start(t, dir)
	t.Run("the first start reports its phases", func(t *testing.T) { checkPhases(t, first.state()) })
	c := first.client()
	t.Run("every webhook is served", func(t *testing.T) { checkWebhooks(t, ctx, c) })
	t.Run("admission defaults and refuses", func(t *testing.T) { checkAdmission(t, ctx, c) })
	t.Run("versions are converted", func(t *testing.T) { checkConversion(t, ctx, c) })
	t.Run("each object of a topology is created once", func(t *testing.T) { checkTopology(t, ctx, c) })
	t.Run("a control plane that appears late is found at once", func(t *testing.T) { checkControlPlaneAppears(t, ctx, c) })
	t.Run("a recreated cluster gets a new connection", func(t *testing.T) { checkRecreation(t, ctx, c) })
	t.Run("calls of hooks are in the metrics", func(t *testing.T) { checkMetrics(t, ctx, c, first.metrics) })
	t.Run("dependents and namespaces are deleted", func(t *testing.T) { checkDeletion(t, ctx, c) })
	t.Run("clusterctl finds its inventory", func(t *testing.T) { checkInventory(t, ctx, c) })
	for _, name := range []string{"controller-manager", "apiserver", "etcd"} {
		t.Run(name+" comes back after a kill", func(t *testing.T) { checkRecovery(t, ctx, first, c, name) })
	}
	before := read(t, dir, "pki/ca.crt", "pki/apiserver.crt", "pki/service-accounts.key", "ports.json")
	first.stop()
	if found := left(t, dir); len(found) > 0 {
		t.Fatalf("processes are left: %v", found)
	}
	if _, err := os.Stat(filepath.Join(dir, progress.ReadyFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stopped plane still has its ready file: %v", err)
	}

	second := start(t, dir)
	t.Run("a second start keeps everything and writes nothing", func(t *testing.T) {
		if after := read(t, dir, "pki/ca.crt", "pki/apiserver.crt", "pki/service-accounts.key",
			"ports.json"); after != before {
			t.Error("keys or ports changed")
		}
		for _, phase := range second.state().Phases {
			if (phase.Name == progress.PhaseCRDs || phase.Name == progress.PhaseSeed) && !strings.HasPrefix(phase.Detail, "0 ") {
				t.Errorf("phase %s of the second start wrote something: %s", phase.Name, phase.Detail)
			}
		}
		// The earlier client still works: same port, same authority.
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: templates.LocalClass},
			&clusterv1.ClusterClass{}); err != nil {
			t.Error(err)
		}
	})

	children := []int{second.pid("etcd"), second.pid("apiserver"), second.pid("controller-manager")}
	second.kill()
	third := start(t, dir) // starts at once, so it must wait for the children of the killed plane
	t.Run("after a power cut the children are gone and the data is there", func(t *testing.T) {
		for _, pid := range children {
			if err := syscall.Kill(pid, 0); err == nil &&
				!slices.Contains([]int{third.pid("etcd"), third.pid("apiserver"), third.pid("controller-manager")}, pid) {
				if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); !strings.Contains(string(stat), ") Z ") {
					t.Errorf("process %d of the killed plane still runs", pid)
				}
			}
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: templates.LocalClass},
			&clusterv1.ClusterClass{}); err != nil {
			t.Error(err)
		}
	})
	third.stop()
	if found := left(t, dir); len(found) > 0 {
		t.Fatalf("processes are left: %v", found)
	}
}

func read(t *testing.T, dir string, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

func checkPhases(t *testing.T, state progress.State) {
	var names []string
	for _, phase := range state.Phases {
		names = append(names, phase.Name)
		t.Logf("%-20s %6d ms after %6d ms  %s", phase.Name, phase.Duration, phase.Start, phase.Detail)
	}
	slices.Sort(names)
	want := []string{progress.PhaseKeys, progress.PhaseEtcd, progress.PhaseAPIServer, progress.PhaseCRDs,
		progress.PhaseControllerManager,
		progress.PhaseManager, progress.PhaseSeed}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("got the phases %v, want %v", names, want)
	}
	if !state.Ready || state.ReadyAfter == 0 || state.Error != "" || state.ClusterAPI == "" {
		t.Errorf("the state of the plane is %+v", state)
	}
	for _, c := range state.Components {
		if !c.Up || c.Restarts != 0 {
			t.Errorf("the component %+v is not up, or was restarted", c)
		}
	}
}

// checkWebhooks calls every webhook at the URL in its configuration: the plane serves all of them, and accepts only
// known certificates.
func checkWebhooks(t *testing.T, ctx context.Context, c client.Client) {
	var mutating admissionv1.MutatingWebhookConfigurationList
	var validating admissionv1.ValidatingWebhookConfigurationList
	if err := errors.Join(c.List(ctx, &mutating), c.List(ctx, &validating)); err != nil {
		t.Fatal(err)
	}
	var configs []admissionv1.WebhookClientConfig
	for _, list := range mutating.Items {
		for _, hook := range list.Webhooks {
			configs = append(configs, hook.ClientConfig)
		}
	}
	for _, list := range validating.Items {
		for _, hook := range list.Webhooks {
			configs = append(configs, hook.ClientConfig)
		}
	}
	if len(configs) < 25 {
		t.Fatalf("there are only %d webhooks", len(configs))
	}
	for _, config := range configs {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(config.CABundle)
		caller := http.Client{
			Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}},
		}
		url := ptr.Deref(config.URL, "")
		resp, err := caller.Post(url, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Errorf("calling the webhook %s: %v", url, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			t.Errorf("the webhook %s is not served", url)
		}
	}
}

// topology returns a Cluster of the local class.
func topology(name, version string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef:     clusterv1.ClusterClassRef{Name: templates.LocalClass},
			Version:      version,
			ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)},
			Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{
				{Class: "default-worker", Name: "workers", Replicas: ptr.To[int32](2), Metadata: clusterv1.ObjectMeta{
					// Otherwise no worker is created until the control plane works, which never happens here.
					Annotations: map[string]string{
						clusterv1.MachineSetSkipPreflightChecksAnnotation: string(clusterv1.MachineSetPreflightCheckAll),
					},
				}},
			}},
		}},
	}
}

func checkAdmission(t *testing.T, ctx context.Context, c client.Client) {
	cluster := topology("defaulted", "1.36.3")
	if err := c.Create(ctx, cluster, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := cluster.Spec.Topology.Version; got != "v1.36.3" {
		t.Errorf("the version was defaulted to %q", got)
	}
	err := c.Create(ctx, topology("refused", "not-a-version"), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("a wrong version: got error %v, want one about the version", err)
	}
}

func checkConversion(t *testing.T, ctx context.Context, c client.Client) {
	old := &clusterv1beta1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "old", Annotations: map[string]string{clusterv1.PausedAnnotation: ""},
		},
		Spec: clusterv1beta1.ClusterSpec{
			Paused: true,
			InfrastructureRef: &corev1.ObjectReference{
				APIVersion: "infrastructure.capstan.dev/v1beta2", Kind: "CapstanCluster", Name: "old", Namespace: "default",
			},
		},
	}
	if err := c.Create(ctx, old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(ctx), old) })
	fresh := &clusterv1.Cluster{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(old), fresh); err != nil {
		t.Fatal(err)
	}
	if ref := fresh.Spec.InfrastructureRef; ref.APIGroup != "infrastructure.capstan.dev" || ref.Kind != "CapstanCluster" ||
		!ptr.Deref(fresh.Spec.Paused, false) {
		t.Errorf("the spec after conversion from v1beta1 is %+v", fresh.Spec)
	}
	again := &clusterv1beta1.Cluster{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(old), again); err != nil {
		t.Fatal(err)
	}
	// The version of the reference is not stored, but looked up in the labels of the definition.
	if ref := again.Spec.InfrastructureRef; ref == nil || ref.APIVersion != "infrastructure.capstan.dev/v1beta2" {
		t.Errorf("the spec after conversion to v1beta1 is %+v", again.Spec)
	}
}

// checkTopology creates a cluster whose infrastructure nobody provides, so its creation stops at that point. It checks
// that every controller that acts before that point does its work exactly once.
func checkTopology(t *testing.T, ctx context.Context, c client.Client) {
	cluster := topology("demo", "v1.36.3")
	if err := c.Create(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"cluster.x-k8s.io/v1beta2/MachineDeployment":                1,
		"cluster.x-k8s.io/v1beta2/MachineSet":                       1,
		"cluster.x-k8s.io/v1beta2/Machine":                          2,
		"cluster.x-k8s.io/v1beta2/MachineHealthCheck":               2, // for control plane and workers
		"infrastructure.capstan.dev/v1beta2/CapstanCluster":         1,
		"controlplane.cluster.x-k8s.io/v1beta2/KubeadmControlPlane": 1,
		"bootstrap.cluster.x-k8s.io/v1beta2/KubeadmConfig":          2,
		"infrastructure.capstan.dev/v1beta2/CapstanMachine":         2,
		"infrastructure.capstan.dev/v1beta2/CapstanMachineTemplate": 2,
		"bootstrap.cluster.x-k8s.io/v1beta2/KubeadmConfigTemplate":  1,
		"addons.cluster.x-k8s.io/v1beta2/ClusterResourceSet":        0,
	}
	count := func() (map[string]int, error) {
		got := map[string]int{}
		for kind := range want {
			list := &unstructured.UnstructuredList{}
			parts := strings.Split(kind, "/")
			list.SetAPIVersion(parts[0] + "/" + parts[1])
			list.SetKind(parts[2] + "List")
			if err := c.List(ctx, list, client.InNamespace("default"),
				client.MatchingLabels{clusterv1.ClusterNameLabel: "demo"}); err != nil {
				return nil, err
			}
			got[kind] = len(list.Items)
		}
		return got, nil
	}
	equal := func() error {
		got, err := count()
		if err != nil {
			return err
		}
		for kind, n := range want {
			if got[kind] != n {
				return fmt.Errorf("there are %d %s, want %d", got[kind], kind, n)
			}
		}
		return nil
	}
	eventually(t, "exactly the wanted objects of the cluster", equal)
	// The guard against stale caches works: quick scaling up and down creates no more objects than requested.
	for _, replicas := range []int32{4, 2, 5, 2} {
		eventually(t, "the update of the cluster's size", func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
				return err
			}
			cluster.Spec.Topology.Workers.MachineDeployments[0].Replicas = &replicas
			return c.Update(ctx, cluster)
		})
		want["cluster.x-k8s.io/v1beta2/Machine"] = int(replicas)
		want["bootstrap.cluster.x-k8s.io/v1beta2/KubeadmConfig"] = int(replicas)
		want["infrastructure.capstan.dev/v1beta2/CapstanMachine"] = int(replicas)
		eventually(t, fmt.Sprintf("exactly %d machines", replicas), func() error {
			got, err := count()
			if err == nil && got["cluster.x-k8s.io/v1beta2/Machine"] > 5 {
				t.Fatalf("there are %d machines, more than ever requested", got["cluster.x-k8s.io/v1beta2/Machine"])
			}
			return errors.Join(err, equal())
		})
	}
	if err := c.Delete(ctx, cluster); err != nil {
		t.Fatal(err)
	}
	for kind := range want {
		want[kind] = 0
	}
	eventually(t, "the cluster to be gone", func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster still exists: %v", err)
		}
		return equal()
	})
}

func checkDeletion(t *testing.T, ctx context.Context, c client.Client) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "deletion-"}}
	if err := c.Create(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a service account in the new namespace", func() error {
		return c.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "owner"}}
	if err := c.Create(ctx, owner); err != nil {
		t.Fatal(err)
	}
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "dependent",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "other"}}
	if err := errors.Join(c.Create(ctx, dependent), c.Create(ctx, other), c.Delete(ctx, owner)); err != nil {
		t.Fatal(err)
	}
	gone := func(object client.Object) func() error {
		return func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s still exists: %v", object.GetName(), err)
			}
			return nil
		}
	}
	eventually(t, "the dependent to be gone", gone(dependent))
	// The read is repeated, because a call fails if certificates are renewed at that moment. This hides no error: if the
	// object had been deleted, each later read would fail, too.
	eventually(t, "the object without an owner to be read", func() error {
		return c.Get(ctx, client.ObjectKeyFromObject(other), other)
	})
	if err := c.Delete(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to be gone", gone(namespace))
}

// checkRecovery kills a child and checks that the plane works completely again, with the same manager.
func checkRecovery(t *testing.T, ctx context.Context, r *running, c client.Client, name string) {
	pid := r.pid(name)
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" to be restarted", func() error {
		for _, component := range r.state().Components {
			if component.Name == name && component.Up && component.Pid != pid && component.Restarts > 0 &&
				component.LastExit != "" {
				return nil
			}
		}
		return fmt.Errorf("the components are %+v", r.state().Components)
	})
	probe := func() error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "probe-"}}
		return errors.Join(c.Create(ctx, object), c.Create(ctx, topology("probe", "v1.36.3"), client.DryRunAll))
	}
	eventually(t, "the API and the webhooks to work again", probe)
	t.Logf("%s was killed and all works after %s", name, time.Since(killed).Round(10*time.Millisecond))
	checkDeletion(t, ctx, c)
	select {
	case <-r.exited:
		t.Fatalf("the plane exited:\n%s", r.tail())
	default:
	}
}

// TestPlaneSaysWhatIsWrong: a start that can't succeed fails with a clear message and leaves no processes.
func TestPlaneSaysWhatIsWrong(t *testing.T) {
	cases := map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"the authority's key was lost": {func(t *testing.T, dir string) {
			if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "pki", "ca.crt"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "remove the directory"},
		"etcd's data is not a database": {func(t *testing.T, dir string) {
			if err := os.MkdirAll(filepath.Join(dir, "etcd", "member", "snap"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "etcd", "member", "snap", "db"), []byte(strings.Repeat("x", 1<<16)),
				0o600); err != nil {
				t.Fatal(err)
			}
		}, "etcd stopped by itself during its start"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "plane")
			c.prepare(t, dir)
			r := launch(t, dir)
			select {
			case <-r.exited:
			case <-time.After(patience):
				t.Fatal("the plane does not exit")
			}
			if out := r.output.String(); !strings.Contains(out, c.want) {
				t.Errorf("the output of the plane is:\n%s\nwhich does not contain %q", out, c.want)
			}
			if code := r.cmd.ProcessState.ExitCode(); code == 0 {
				t.Error("the plane exited with status 0")
			}
			data, err := os.ReadFile(filepath.Join(dir, progress.StatusFile))
			var state progress.State
			if err := errors.Join(err, json.Unmarshal(data, &state)); err != nil || !strings.Contains(state.Error, c.want) {
				t.Errorf("the error in the state is %q, %v", state.Error, err)
			}
			if found := left(t, dir); len(found) > 0 {
				t.Errorf("processes are left: %v", found)
			}
		})
	}
}
