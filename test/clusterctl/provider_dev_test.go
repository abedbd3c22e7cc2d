//go:build linux

package clusterctl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// TestDevelopmentProvider runs somebody else's real provider as a process of the plane: Cluster API's own development
// provider, with its in-memory backend. It creates a whole cluster from a ClusterClass. Building it takes minutes the
// first time, and not every proxy has its module. Run the test with make test-provider-binary.
func TestDevelopmentProvider(t *testing.T) {
	if os.Getenv("CAPSTAN_TEST_PROVIDER_BINARY") == "" {
		t.Skip("set CAPSTAN_TEST_PROVIDER_BINARY=1, or run make test-provider-binary")
	}
	binary, module, release := developmentProvider(t)
	e := newEmbedded(t)
	e.tellProviders()
	directory := filepath.Join(module, "infrastructure", "docker")
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(directory, "config", "default"))
	e.must(err)
	components, err := objects.AsYaml()
	e.must(err)
	core, err := apiserver.Module("sigs.k8s.io/cluster-api")
	e.must(err)
	files := map[string][]byte{"infrastructure-components.yaml": components}
	for name, path := range map[string]string{
		"metadata.yaml":                   filepath.Join(core, "metadata.yaml"),
		"cluster-template-in-memory.yaml": filepath.Join(directory, "templates", "cluster-template-in-memory.yaml"),
		"clusterclass-in-memory.yaml":     filepath.Join(directory, "templates", "clusterclass-in-memory.yaml"),
	} {
		files[name], err = os.ReadFile(path)
		e.must(err)
	}
	e.provide("docker", "InfrastructureProvider", release, files)
	e.env = []string{
		"CLUSTER_TOPOLOGY=true", `SERVICE_CIDR=["10.96.0.0/16"]`, `POD_CIDR=["10.244.0.0/16"]`,
		"SERVICE_DOMAIN=cluster.local",
	}
	e.works("clusterctl", "init", "--config", e.config, "--infrastructure", "docker", "--provider-binary",
		"docker="+binary, "--wait-providers", "--wait-provider-timeout", startTime)
	began := time.Now()
	manifest := filepath.Join(e.home, "mem.yaml")
	e.works("clusterctl", "generate", "cluster", "mem", "--config", e.config, "--infrastructure", "docker:"+release,
		"--flavor", "in-memory", "--kubernetes-version", "v1.36.3",
		"--control-plane-machine-count", "1", "--worker-machine-count", "1", "--write-to", manifest)
	e.works("kubectl", "apply", "-f", manifest)
	e.until("the provider has made a cluster with two machines", func() bool { return e.runningMachines() == 2 })
	e.Logf("RESULT a cluster in memory, one control plane machine and one worker: %s",
		time.Since(began).Round(100*time.Millisecond))

	template := e.one("DevMachineTemplate", "v1beta2", "in-memory-control-plane")
	before := template.DeepCopy()
	e.must(unstructured.SetNestedField(template.Object, "1m", "spec", "template", "spec", "backend", "inMemory", "vm",
		"provisioning", "startupDuration"))
	if err := e.api.Patch(e.Context(), template, client.MergeFrom(before)); err == nil ||
		!strings.Contains(err.Error(), "immutable") {
		e.Errorf("the provider's webhook lets a template be changed: %v", err)
	}
	if _, ok, _ := unstructured.NestedMap(e.one("DevMachineTemplate", "v1beta1", "in-memory-control-plane").Object, "spec",
		"template", "spec", "backend", "inMemory"); !ok {
		e.Error("the provider's webhook lost the backend of a template when it converted the template")
	}

	e.works("cluster", "delete", "mem")
	e.works("kubectl", "delete", "-f", manifest, "--ignore-not-found")

	first := e.process(binary)
	e.must(syscall.Kill(first, syscall.SIGKILL))
	e.until("the provider runs again after it was killed",
		func() bool { pid := e.pid(binary); return pid != 0 && pid != first })
	second := e.process(binary)
	e.must(syscall.Kill(e.planeProcess(), syscall.SIGKILL))
	e.until("the provider runs again after the plane was killed",
		func() bool { pid := e.pid(binary); return pid != 0 && pid != second })
	e.until("the API server answers again", func() bool { return e.api.List(e.Context(), &corev1.NamespaceList{}) == nil })
	e.works("clusterctl", "delete", "--config", e.config, "--infrastructure", "docker", "--include-crd",
		"--include-namespace")
	e.until("the process of the deleted provider has exited", func() bool { return e.pid(binary) == 0 })
}

// developmentProvider builds the provider, and returns the path of its program, its sources and their version.
func developmentProvider(t *testing.T) (binary, module, release string) {
	t.Helper()
	binary = filepath.Join(t.TempDir(), "capd")
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = filepath.Join(apiserver.Root(), "hack", "devprovider")
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("build", "-o", binary, "sigs.k8s.io/cluster-api/test/infrastructure/docker")
	module, release, _ = strings.Cut(run("list", "-m", "-f", "{{.Dir}} {{.Version}}", "sigs.k8s.io/cluster-api/test"), " ")
	return binary, module, release
}

// runningMachines returns the number of running Machines.
func (e *embedded) runningMachines() (n int) {
	e.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(clusterv1.GroupVersion.String())
	list.SetKind("MachineList")
	e.must(e.api.List(e.Context(), list))
	for _, m := range list.Items {
		if phase, _, _ := unstructured.NestedString(m.Object, "status",
			"phase"); phase == string(clusterv1.MachinePhaseRunning) {
			n++
		}
	}
	return n
}

// one returns an object of the development provider in namespace default.
func (e *embedded) one(kind, version, name string) *unstructured.Unstructured {
	e.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("infrastructure.cluster.x-k8s.io/" + version)
	o.SetKind(kind)
	e.must(e.api.Get(e.Context(), client.ObjectKey{Namespace: "default", Name: name}, o))
	return o
}
