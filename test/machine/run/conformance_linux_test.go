package run

import (
	"archive/tar"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/test/images"
	"github.com/capstan-dev/capstan/test/machine"
)

// conformanceVariable names the environment variable that enables conformance tests, which take long.
const conformanceVariable = "CAPSTAN_TEST_CONFORMANCE"

// conformanceLimit limits the time for the conformance tests; the creation of the cluster does not count.
const conformanceLimit = 40 * time.Minute

// sources is the root of the sources.
const sources = "../../.."

// TestConformance runs CI's list of conformance tests on a cluster of machines. The suite and the images must be built
// beforehand, because the machines have no network to download them.
func TestConformance(t *testing.T) {
	if os.Getenv(conformanceVariable) == "" {
		t.Skip("runs conformance tests on machines: make test-owned-conformance")
	}
	w := newWorld(t)
	dir := filepath.Dir(w.home)
	runner := filepath.Join(dir, "conformance")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", runner, "./hack/conformance")
	build.Dir = sources
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building hack/conformance, which runs the tests: %v: %s", err, out)
	}
	w.asWritten(dir)
	w.layout(dir, filepath.Join(sources, "bin", "testimages", "list"))
	w.step("images of the tests are on all machines")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(w.run("cluster", "kubeconfig", "rack")), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), conformanceLimit+5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, runner, "-again", "-kubeconfig", kubeconfig, "-images", "list", "-list",
		"test/conformance/ci.txt", "-limit", conformanceLimit.String())
	run.Dir, run.Stdout, run.Stderr = sources, os.Stdout, os.Stderr
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = 2 * time.Minute
	if err := run.Run(); err != nil {
		t.Errorf("the conformance tests: %v", err)
	}
	w.step("conformance tests")
	w.returned()
}

// layout loads the images of an OCI layout on all machines. It leaves out images that have the name of an image from
// the bundle.
func (w *world) layout(dir, layout string) {
	w.Helper()
	there := strings.Fields(w.on(w.machines[0], "ctr -n k8s.io images list --quiet"))
	archive := filepath.Join(dir, "images.tar")
	file, err := os.Create(archive)
	if err != nil {
		w.Fatal(err)
	}
	defer os.Remove(archive)
	out := tar.NewWriter(file)
	err = filepath.WalkDir(layout, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(layout, path)
		if err != nil || name == "key" {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && name == "index.json" {
			data, err = without(data, there)
		}
		if err != nil {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	})
	if err == nil {
		err = out.Close()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		w.Fatalf("packing the images of the tests, which make test-owned-conformance builds: %v", err)
	}
	w.load(archive)
}

// without returns the index of a layout without the images of these names.
func without(data []byte, names []string) ([]byte, error) {
	var index v1.IndexManifest
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, err
	}
	index.Manifests = slices.DeleteFunc(index.Manifests, func(d v1.Descriptor) bool {
		return slices.Contains(names, d.Annotations[images.NameAnnotation])
	})
	return json.Marshal(index)
}

// load loads the images of an archive into the container runtimes of all machines.
func (w *world) load(archive string) {
	w.Helper()
	for _, m := range w.machines {
		w.copy(m, archive, "/var/tmp/images.tar")
		w.on(m, "ctr -n k8s.io images import --local /var/tmp/images.tar && rm /var/tmp/images.tar")
	}
}

// copy writes a file of this computer to a machine.
func (w *world) copy(m *machine.Machine, from, to string) {
	w.Helper()
	file, err := os.Open(from)
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	ctx, cancel := context.WithTimeout(w.Context(), w.patience())
	defer cancel()
	if err := m.Write(ctx, to, file); err != nil {
		w.Fatal(err)
	}
}
