//go:build linux

package clusterctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capstan-dev/capstan/release"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// patience limits one command.
const patience = 3 * time.Minute

// coreVersion is the version of Cluster API in go.mod.
var coreVersion string

// Versions of the releases that tests install: one for contract v1beta1, one for v1beta2, and a later one for v1beta2.
const older, current, newer = "v0.0.1", "v0.1.0", "v0.1.1"

// world has a repository and a clusterctl, and may have a management cluster.
type world struct {
	*testing.T
	binary, config, repository, kubeconfig, home string
	env                                          []string
	api                                          client.Client
}

// newWorld creates a local repository with our releases and with a release of Cluster API, in the version that we are
// built with.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, repository: filepath.Join(t.TempDir(), "repository"), home: t.TempDir()}
	w.binary = build(t)
	files := w.releases()
	w.must(release.Write(files, w.repository))
	w.config = filepath.Join(w.home, "clusterctl.yaml")
	w.configure(current)
	return w
}

// made caches the files of all releases, because building them takes a while.
var made release.Files

func (w *world) releases() release.Files {
	w.Helper()
	if made != nil {
		return made
	}
	all := release.Files{}
	for _, version := range []string{older, current, newer} {
		files, err := release.Repository(release.Options{Version: version, Source: apiserver.Root()})
		w.must(err)
		maps.Copy(all, files)
	}
	w.upstream(all)
	made = all
	return made
}

// build builds clusterctl, which Go's cache usually already has.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(apiserver.Root(), "bin", "tools", "clusterctl")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags",
		"-X sigs.k8s.io/cluster-api/version.gitVersion="+version(t), "-o", path, "sigs.k8s.io/cluster-api/cmd/clusterctl")
	cmd.Dir = filepath.Join(apiserver.Root(), "hack", "clusterctl")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building clusterctl: %v\n%s", err, out)
	}
	return path
}

// version returns the version of Cluster API.
func version(t *testing.T) string {
	t.Helper()
	if coreVersion != "" {
		return coreVersion
	}
	dir, err := apiserver.Module("sigs.k8s.io/cluster-api")
	if err != nil {
		t.Fatal(err)
	}
	_, coreVersion, _ = strings.Cut(filepath.Base(dir), "@")
	return coreVersion
}

// upstream adds the providers of Cluster API, built from its module.
func (w *world) upstream(files release.Files) {
	w.Helper()
	dir, err := apiserver.Module("sigs.k8s.io/cluster-api")
	w.must(err)
	metadata, err := os.ReadFile(filepath.Join(dir, "metadata.yaml"))
	w.must(err)
	for label, p := range map[string]struct{ directory, file string }{
		"cluster-api":           {"core/config/default", "core-components.yaml"},
		"bootstrap-kubeadm":     {"bootstrap/kubeadm/config/default", "bootstrap-components.yaml"},
		"control-plane-kubeadm": {"controlplane/kubeadm/config/default", "control-plane-components.yaml"},
	} {
		objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
			filepath.Join(dir, p.directory))
		w.must(err)
		text, err := objects.AsYaml()
		w.must(err)
		files[label+"/"+version(w.T)+"/"+p.file] = text
		files[label+"/"+version(w.T)+"/metadata.yaml"] = metadata
	}
}

// configure writes clusterctl's configuration, which names this release of ours.
func (w *world) configure(ours string) {
	w.Helper()
	var text strings.Builder
	text.WriteString("cert-manager: {externallyProvisioned: \"true\"}\nproviders:\n")
	for _, p := range []struct{ name, kind, path string }{
		{"cluster-api", "CoreProvider", "cluster-api/" + version(w.T) + "/core-components.yaml"},
		{"kubeadm", "BootstrapProvider", "bootstrap-kubeadm/" + version(w.T) + "/bootstrap-components.yaml"},
		{"kubeadm", "ControlPlaneProvider", "control-plane-kubeadm/" + version(w.T) + "/control-plane-components.yaml"},
		{"capstan", "InfrastructureProvider", "infrastructure-capstan/" + ours + "/infrastructure-components.yaml"},
		{"capstan", "RuntimeExtensionProvider", "runtime-extension-capstan/" + ours + "/runtime-extension-components.yaml"},
	} {
		fmt.Fprintf(&text, "  - {name: %s, type: %s, url: %q}\n", p.name, p.kind,
			"file://"+filepath.Join(w.repository, p.path))
	}
	w.must(os.WriteFile(w.config, []byte(text.String()), 0o600))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// try runs clusterctl without this machine's settings.
func (w *world) try(args ...string) (stdout, stderr string, err error) {
	w.Helper()
	if args[0] == "init" {
		w.settle()
	}
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, w.binary, append(args, "--config", w.config)...)
	cmd.Env = append([]string{"HOME=" + w.home, "XDG_CONFIG_HOME=" + w.home, "GOPROXY=off",
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "KUBECONFIG=" + w.kubeconfig}, w.env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.home, &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// settle finishes the deletion of the namespace in which clusterctl tests cert-manager: init waits for it, and no
// namespace controller runs here.
func (w *world) settle() {
	w.Helper()
	namespace := &corev1.Namespace{}
	for {
		err := w.api.Get(w.Context(), client.ObjectKey{Name: "cert-manager-test"}, namespace)
		if apierrors.IsNotFound(err) {
			return
		}
		w.must(err)
		namespace.Spec.Finalizers = nil
		w.must(w.api.SubResource("finalize").Update(w.Context(), namespace))
	}
}

// run is like try for a command that must succeed.
func (w *world) run(args ...string) (stdout string) {
	w.Helper()
	stdout, stderr, err := w.try(args...)
	if err != nil {
		w.Fatalf("clusterctl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	w.Logf("clusterctl %s\n%s", strings.Join(args, " "), stderr)
	return stdout
}

// refused is like try for a command that must fail with a message.
func (w *world) refused(want string, args ...string) {
	w.Helper()
	stdout, stderr, err := w.try(args...)
	if err == nil || !strings.Contains(stderr, want) {
		w.Errorf("clusterctl %s: %v, want a failure with %q\n%s%s", strings.Join(args, " "), err, want, stdout, stderr)
	}
}

// cluster starts a management cluster.
func (w *world) cluster() {
	w.Helper()
	server, err := apiserver.Start(apiserver.Options{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{standIn("issuers", "Issuer"),
			standIn("certificates", "Certificate")},
		Controllers: []string{"clusterrole-aggregation-controller"},
	})
	w.Cleanup(func() {
		if err := server.Stop(); err != nil {
			w.Errorf("stopping the API server: %v", err)
		}
	})
	w.must(err)
	w.kubeconfig = filepath.Join(w.home, "kubeconfig")
	w.must(os.WriteFile(w.kubeconfig, server.Kubeconfig, 0o600))
	scheme := runtime.NewScheme()
	w.must(errors.Join(clientgoscheme.AddToScheme(scheme), clusterctlv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme)))
	w.api, err = client.New(server.Config, client.Options{Scheme: scheme})
	w.must(err)
	w.must(w.api.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}))
}

// standIn returns a definition of a cert-manager kind that accepts everything.
func standIn(plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	all := true
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = plural + ".cert-manager.io"
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "cert-manager.io", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{
			Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List",
		},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &all},
			},
		}},
	}
	return crd
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			w.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(asProvider) != "" {
		if err := beProvider(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctrl.SetLogger(logr.Discard())
	if cluster := os.Getenv(asCore); cluster != "" {
		if err := beCore(cluster); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
