package scaffold_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capstan-dev/capstan/runtime/scaffold"
)

// write creates a project that uses this working tree's Runtime SDK.
func write(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "quota")
	written, err := scaffold.Write(directory, scaffold.Options{Module: "example.org/quota", SDKDirectory: ".."})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "main.go", "handlers.go", "handlers_test.go", "config/deployment.yaml",
		"config/extensionconfig.yaml", "README.md"} {
		if !slices.Contains(written, name) {
			t.Errorf("%s was not written: %s", name, written)
		}
	}
	return directory
}

// A new project builds, passes its own tests, and is formatted. Nothing is downloaded, because this machine already has
// the Runtime SDK's dependencies.
func TestANewProjectPassesItsTests(t *testing.T) {
	directory := write(t)
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "go.sum"), sums, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "./...") // which builds and vets all of it
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test: %v\n%s", err, out)
	}
	t.Attr("rule", "RX-11")
	if out, err := exec.CommandContext(ctx, "gofmt", "-l", directory).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("not formatted: %s, %v", out, err)
	}
}

// The deployment follows the contract.
func TestDeployment(t *testing.T) {
	objects := map[string]*unstructured.Unstructured{}
	directory := write(t)
	for _, name := range []string{"config/deployment.yaml", "config/extensionconfig.yaml"} {
		file, err := os.Open(filepath.Join(directory, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); err != nil {
				break
			}
			if object.Object != nil {
				objects[object.GetKind()] = object
			}
		}
	}
	get := func(kind string, path ...string) any {
		object := objects[kind]
		if object == nil {
			t.Fatalf("there is no %s", kind)
		}
		value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	if replicas := get("Deployment", "spec", "replicas"); replicas != int64(2) {
		t.Errorf("%v replicas (RX-35)", replicas)
	}
	t.Attr("rule", "RX-35")
	t.Attr("rule", "RX-32")
	if account := get("Deployment", "spec", "template", "spec", "serviceAccountName"); account != "quota" {
		t.Errorf("the service account is %v (RX-36)", account)
	}
	t.Attr("rule", "RX-36")
	if root := get("Deployment", "spec", "template", "spec", "securityContext", "runAsNonRoot"); root != true {
		t.Errorf("runAsNonRoot is %v (RX-38)", root)
	}
	containers, _ := get("Deployment", "spec", "template", "spec", "containers").([]any)
	container, _ := containers[0].(map[string]any)
	context, _ := container["securityContext"].(map[string]any)
	if container["name"] != "manager" || context["allowPrivilegeEscalation"] != false ||
		context["readOnlyRootFilesystem"] != true || context["privileged"] != nil {
		t.Errorf("the container is %v (RX-38, RX-42)", container)
	}
	t.Attr("rule", "RX-38")
	t.Attr("rule", "RX-42")
	if kind := get("Service", "spec", "type"); kind != "ClusterIP" {
		t.Errorf("the service is a %v (RX-33)", kind)
	}
	t.Attr("rule", "RX-33")
	for _, rule := range get("Role", "rules").([]any) {
		for _, list := range []string{"verbs", "resources", "apiGroups"} {
			if values, _ := rule.(map[string]any)[list].([]any); slices.Contains(values, any("*")) {
				t.Errorf("the role allows * in %s (RX-36)", list)
			}
		}
	}
	t.Attr("rule", "RX-36")
	image, err := os.ReadFile(filepath.Join(directory, "Dockerfile"))
	if err != nil || !strings.Contains(string(image), "\nFROM scratch\n") ||
		!strings.Contains(string(image), "\nUSER 65532:65532\n") {
		t.Errorf("the image contains more than the binary, or runs as root (RX-37): %s, %v", image, err)
	}
	t.Attr("rule", "RX-31")
	t.Attr("rule", "RX-37")
	if get("NetworkPolicy", "spec", "ingress") == nil {
		t.Error("the network policy admits no caller (RX-29, RX-40)")
	}
	t.Attr("rule", "RX-40")
	if from := objects["ExtensionConfig"].GetAnnotations()["runtime.cluster.x-k8s.io/inject-ca-from-secret"]; from !=
		"quota/quota-cert" {
		t.Errorf("the CA comes from %q (RC-09)", from)
	}
	t.Attr("rule", "RC-09")
}

func TestWriteRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		directory string
		options   scaffold.Options
	}{
		"the module path \"\" is not": {filepath.Join(t.TempDir(), "a"), scaffold.Options{}},
		"the module path \"a b\" is":  {filepath.Join(t.TempDir(), "a"), scaffold.Options{Module: "a b"}},
		"the name \"Ä\" is not valid": {filepath.Join(t.TempDir(), "a"),
			scaffold.Options{Module: "example.org/x", Name: "Ä"}},
		"is not empty": {full, scaffold.Options{Module: "example.org/x"}},
		"finding the Runtime SDK": {filepath.Join(t.TempDir(), "a"),
			scaffold.Options{Module: "example.org/x", SDKDirectory: full}},
		"not a directory": {filepath.Join(full, "file"), scaffold.Options{Module: "example.org/x"}},
	} {
		if _, err := scaffold.Write(c.directory, c.options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 || errors.Is(err, os.ErrNotExist) {
		t.Errorf("the full directory has %v, %v", entries, err)
	}
}
