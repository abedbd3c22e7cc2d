//go:build linux

package clusterctl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/release"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// embedded is an embedded plane, used by the command line of capstan and by the real clusterctl.
type embedded struct {
	*world
	capstan string
}

// newEmbedded starts a plane, and stops it after the test.
func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	e := &embedded{newWorld(t), filepath.Join(apiserver.Root(), "bin", "capstan")}
	if _, err := os.Stat(e.capstan); err != nil {
		t.Fatal("bin/capstan is not built: run make build")
	}
	t.Cleanup(func() {
		if _, errs, err := e.command(context.Background(), "down", "--delete"); err != nil {
			t.Errorf("ending the plane: %v\n%s", err, errs)
		}
	})
	e.works("up", "--hosts", "1")
	e.kubeconfig = filepath.Join(e.home, "plane", "kubeconfig")
	e.thirdParty()
	settings, err := clientcmd.BuildConfigFromFlags("", e.kubeconfig)
	e.must(err)
	scheme := runtime.NewScheme()
	e.must(clientgoscheme.AddToScheme(scheme))
	e.must(clusterctlv1.AddToScheme(scheme))
	e.must(infrav1.AddToScheme(scheme))
	e.api, err = client.New(settings, client.Options{Scheme: scheme})
	e.must(err)
	return e
}

// command runs capstan without this machine's settings.
func (e *embedded) command(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, e.capstan, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.home, "XDG_CONFIG_HOME=" + e.home,
		"CAPSTAN_HOME=" + filepath.Join(e.home, "plane"), "GOPROXY=off"}, e.env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err = cmd.Run()
	e.Logf("capstan %s: %s", strings.Join(args, " "), time.Since(began).Round(10*time.Millisecond))
	return out.String(), errs.String(), err
}

func (e *embedded) works(args ...string) string {
	e.Helper()
	out, errs, err := e.command(e.Context(), args...)
	if err != nil {
		e.Fatalf("capstan %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return out
}

// fails runs a command of capstan clusterctl that must fail with these words and leave the inventory unchanged.
func (e *embedded) fails(want string, args ...string) {
	e.Helper()
	before := e.inventory()
	out, errs, err := e.command(e.Context(), append([]string{"clusterctl"}, args...)...)
	if err == nil || !strings.Contains(errs, want) {
		e.Errorf("capstan clusterctl %s: %v, want %q\n%s%s", strings.Join(args, " "), err, want, out, errs)
	}
	if after := e.inventory(); after != before {
		e.Errorf("capstan clusterctl %s failed and changed the inventory to %s", strings.Join(args, " "), after)
	}
}

func (e *embedded) inventory() string {
	e.Helper()
	list := &clusterctlv1.ProviderList{}
	e.must(e.api.List(e.Context(), list))
	var all []string
	for _, p := range list.Items {
		all = append(all, p.Namespace+"/"+p.Name+" "+p.Version)
	}
	return strings.Join(all, ", ")
}

// thirdParty adds other people's providers to the repository: one that consists only of objects, in two versions, and
// one whose controller runs in a Pod.
func (e *embedded) thirdParty() {
	e.Helper()
	const objects = "apiVersion: v1\nkind: Namespace\nmetadata: {name: plain-system}\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: plain}\nrules: []\n"
	const pod = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: manager, namespace: plain-system}\n" +
		"spec: {selector: {matchLabels: {a: b}}, " +
		"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: manager, image: example.com/manager:v1}]}}}\n"
	const metadata = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n" +
		"releaseSeries: [{major: 1, minor: 0, contract: v1beta2}]\n"
	files := release.Files{}
	for path, text := range map[string]string{
		"addon-plain/v1.0.0": objects, "addon-plain/v1.0.1": objects, "addon-plain/v1.0.2": objects + pod,
		"addon-podded/v1.0.0": objects + pod,
	} {
		files[path+"/addon-components.yaml"], files[path+"/metadata.yaml"] = []byte(text), []byte(metadata)
	}
	e.must(release.Write(files, filepath.Join(e.home, "others")))
	text, err := os.ReadFile(e.config)
	e.must(err)
	for _, name := range []string{"plain", "podded"} {
		text = fmt.Appendf(text, "  - {name: %s, type: AddonProvider, url: %q}\n", name,
			"file://"+filepath.Join(e.home, "others", "addon-"+name, "v1.0.0", "addon-components.yaml"))
	}
	e.must(os.WriteFile(e.config, text, 0o600))
}

// TestEmbeddedPlane uses both capstan clusterctl and the real clusterctl on a running plane.
func TestEmbeddedPlane(t *testing.T) {
	e := newEmbedded(t)
	for _, step := range []struct {
		name string
		test func(*embedded)
	}{
		{"providers of the plane", (*embedded).testParts}, {"other people's providers", (*embedded).testOthers},
		{"templates", (*embedded).testTemplates}, {"smaller commands", (*embedded).testCommands},
		{"the real clusterctl", (*embedded).testReal},
	} {
		t.Run(step.name, func(t *testing.T) {
			w := *e.world
			w.T = t
			step.test(&embedded{&w, e.capstan})
		})
	}
}

// testParts checks that the parts of the plane are installed, and can't be changed separately.
func (e *embedded) testParts() {
	out := e.works("clusterctl", "init", "--infrastructure", "capstan", "--core", "cluster-api", "--bootstrap", "kubeadm",
		"--control-plane", "kubeadm")
	for _, part := range []string{"cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm", "infrastructure-capstan",
		version(e.T)} {
		if !strings.Contains(out, part) {
			e.Errorf("%s is not in the inventory:\n%s", part, out)
		}
	}
	if out := e.works("clusterctl", "upgrade", "plan"); strings.Count(out, "up to date") != 4 {
		e.Errorf("want four providers that are up to date, got the plan\n%s", out)
	}
	e.fails("part of the embedded plane", "init", "--infrastructure", "capstan:v9.0.0")
	e.fails("part of the embedded plane", "upgrade", "apply", "--infrastructure", "capstan:v9.0.0")
	e.fails("part of the embedded plane", "upgrade", "apply", "--contract", "v1beta2")
	e.fails("part of the embedded plane", "delete", "--core", "cluster-api")
	e.fails("capstan down --delete", "delete", "--all")
	e.fails("either name providers", "delete")
	e.fails("either name providers", "upgrade", "apply")
	e.fails("provider name", "init", "--infrastructure", "a:b:c")
	e.fails("nosuch", "init", "--infrastructure", "nosuch")
	e.fails("same management cluster", "move", "--to-kubeconfig", e.kubeconfig)
	e.fails("no such file", "move", "--to-kubeconfig", filepath.Join(e.home, "none"))
	e.fails("--to-kubeconfig", "move")
}

// testOthers installs, upgrades and removes other people's providers, unless they need Pods.
func (e *embedded) testOthers() {
	config := []string{"--config", e.config, "--addon"}
	e.fails("Deployment plain-system/manager", append([]string{"init"}, append(config, "plain,podded")...)...)
	if out := e.works(append([]string{"clusterctl", "init"}, append(config, "plain")...)...); !strings.Contains(out,
		"addon-plain") {
		e.Errorf("the output of init does not name addon-plain:\n%s", out)
	}
	e.fails("Deployment plain-system/manager", append([]string{"upgrade", "apply"}, append(config, "plain:v1.0.2")...)...)
	e.works(append([]string{"clusterctl", "upgrade", "apply"}, append(config, "plain:v1.0.1")...)...)
	if got := e.inventory(); !strings.Contains(got, "addon-plain v1.0.1") {
		e.Errorf("after the upgrade, want addon-plain v1.0.1 in the inventory, got %s", got)
	}
	e.works(append([]string{"clusterctl", "delete", "--include-namespace"}, append(config, "plain")...)...)
	e.until("the provider is gone with its namespace",
		func() bool { return !strings.Contains(e.inventory(), "addon-plain") })
}

// testTemplates checks that every flavor is available without a network and without a plane.
func (e *embedded) testTemplates() {
	for flavor, variables := range flavors {
		args := []string{"clusterctl", "generate", "cluster", "c1", "-n", "blue", "--flavor", flavor, "--kubernetes-version",
			"v1.36.3", "--worker-machine-count", "2"}
		if len(variables) > 0 {
			e.env = nil
			e.fails("CAPSTAN_ENDPOINT_HOST", args[1:]...)
		}
		e.env = variables
		there := documents(e.T, e.works(args...))
		// the last value of a variable counts
		e.env = append([]string{"CAPSTAN_HOME=" + filepath.Join(e.home, "nothing")}, variables...)
		if alone := documents(e.T, e.works(args...)); len(alone) != len(there) || len(there) == 0 {
			e.Errorf("flavor %q has %d objects on the plane, but %d without a plane", flavor, len(there), len(alone))
		}
		for _, o := range there {
			if o.GetNamespace() != "blue" {
				e.Errorf("flavor %q: %s %s is in namespace %q, want blue", flavor, o.GetKind(), o.GetName(),
					o.GetNamespace())
			}
		}
	}
	e.env = nil
	e.fails("cluster-template-none.yaml", "generate", "cluster", "c1", "--flavor", "none",
		"--kubernetes-version", "v1.36.3")
	if out := e.works("clusterctl", "generate", "cluster", "c1", "--flavor", "external",
		"--list-variables"); !strings.Contains(out, "CAPSTAN_ENDPOINT_HOST") {
		e.Errorf("the list of variables lacks CAPSTAN_ENDPOINT_HOST:\n%s", out)
	}
}

// testReal checks that the real clusterctl accepts the plane as a management cluster.
func (e *embedded) testReal() {
	e.works("cluster", "create", "demo", "--workers", "0", "--wait=false")
	host := &infrav1.CapstanHost{}
	e.until("a host is claimed", func() bool {
		e.must(e.api.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: "host-01"}, host))
		return host.Spec.Claim != nil
	})
	if !hasKey(host.Labels, clusterctlv1.ClusterctlMoveLabel) ||
		!hasKey(host.Annotations, clusterctlv1.BlockMoveAnnotation) {
		e.Errorf("a local host that is claimed doesn't hold moves: %v, %v", host.Labels, host.Annotations)
	}
	if out := e.run("describe", "cluster", "demo"); !strings.Contains(out, "CapstanCluster") ||
		!strings.Contains(out, "KubeadmControlPlane") {
		e.Errorf("the description lacks the CapstanCluster or the KubeadmControlPlane:\n%s", out)
	}
	if out := e.run("get", "kubeconfig", "demo"); !strings.Contains(out, "certificate-authority-data") {
		e.Errorf("want a kubeconfig with a certificate authority, got %q", out)
	}
	// The ClusterClass already exists, so the flavor is one object.
	if all := documents(e.T, e.run("generate", "cluster", "c1", "--infrastructure", "capstan:"+current, "--flavor",
		"topology", "--kubernetes-version", "v1.36.3")); len(all) != 1 {
		e.Errorf("with its class installed, the flavor has %d objects, want 1", len(all))
	}
	if out := e.run("upgrade", "plan"); !strings.Contains(out, "infrastructure-capstan") {
		e.Errorf("the plan lacks provider infrastructure-capstan:\n%s", out)
	}
	e.run("move", "--dry-run")
	e.fails("host-01 (cluster demo)", "move", "--dry-run")
	kcp := e.controlPlane()
	e.run("alpha", "rollout", "restart", "kubeadmcontrolplane/"+kcp.GetName())
	if after, _, _ := unstructured.NestedString(e.controlPlane().Object, "spec", "rollout", "after"); after == "" {
		e.Error("the real clusterctl has restarted no rollout")
	}
	e.works("clusterctl", "alpha", "rollout", "pause", "kubeadmcontrolplane/"+kcp.GetName())
	if !hasKey(e.controlPlane().GetAnnotations(), "cluster.x-k8s.io/paused") {
		e.Error("capstan has paused no rollout")
	}
}

// controlPlane returns the only control plane.
func (e *embedded) controlPlane() *unstructured.Unstructured {
	e.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta2")
	list.SetKind("KubeadmControlPlaneList")
	if e.must(e.api.List(e.Context(), list)); len(list.Items) != 1 {
		e.Fatalf("there are %d control planes, want 1", len(list.Items))
	}
	return &list.Items[0]
}
