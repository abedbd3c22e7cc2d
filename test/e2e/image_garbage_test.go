package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/image"
	"github.com/capstan-dev/capstan/test/long"
)

// garbageLimit bounds the wait for the kubelet, which looks every 5 minutes, and removes an image only if it has known
// for 2 minutes that nothing uses it.
const garbageLimit = 12 * time.Minute

// TestAFullImageStoreGivesUpImages fills the disk of the image store above the limit of 90 %. An image that no
// container uses is removed, and can be pulled again. Images that a container uses, on this host or another, and images
// that the user loaded are kept, and continue to work.
func TestAFullImageStoreGivesUpImages(t *testing.T) {
	if !long.Enabled() {
		t.Skip("waits up to 12 minutes for kubelets: make test-image-garbage")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system for the test")
	}
	o := newOwn(t)
	store := filepath.Join(o.home, "images")
	if err := os.MkdirAll(store, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", store, "tmpfs", 0, "size=512m,mode=0700"); err != nil {
		t.Fatalf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() { // runs before the cleanup of newOwn
		o.run(context.Background(), "down") // if this fails, "down --delete" reports why
		if err := syscall.Unmount(store, 0); err != nil {
			t.Errorf("unmounting the disk, which something still uses: %v", err)
		}
	})
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	at := strings.TrimPrefix(server.URL, "http://")
	settings := fmt.Sprintf("plainHTTP: ['%s']\nhostsMayReach: ['%s']\n", at, at)
	if err := os.WriteFile(filepath.Join(o.home, "registries.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "web")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "../../hack/web")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program of the images: %v: %s", err, out)
	}
	g := garbage{t: t, o: o, digests: map[string]string{}}
	images := map[string]string{}
	for _, kind := range []string{"used", "shared", "once"} {
		images[kind] = at + "/" + kind + ":1"
		g.digests[kind] = push(t, images[kind], program)
	}
	o.must(t, "up", "--hosts", "2")
	o.must(t, "image", "build", "loaded.test/web:1", program)
	o.must(t, "cluster", "create", "full", "--control-plane", "1", "--workers", "1")
	g.run("used", images["used"], false)
	g.run("shared-cp", images["shared"], true)
	g.run("once", images["once"], false)
	g.run("shared-worker", images["shared"], false)
	g.waits("pod/once", "pod/shared-worker")
	g.kubectl("delete", "pod", "once", "shared-worker", "--timeout=60s")
	g.waits("pod/used", "pod/shared-cp")
	if got := g.held(); got != "once:1 shared:2 used:1" {
		t.Fatalf("hosts hold the images %q, want once:1 shared:2 used:1", got)
	}

	filler := g.fill(store, 95)
	g.until("the image that no container uses is removed", func() error {
		if got := g.held(); got != "shared:1 used:1" {
			return fmt.Errorf("hosts hold the images %q", got)
		}
		return nil
	})
	const counts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}"
	if out := g.kubectl("get", "pods", "-o", counts); out != "0 0" {
		t.Errorf("containers were restarted: %q", out)
	}
	for _, pod := range []string{"used", "shared-cp"} {
		if out := g.kubectl("exec", pod, "--", "/web", "get", "http://127.0.0.1/"); strings.TrimSpace(out) != pod {
			t.Errorf("pod %s answers %q", pod, out)
		}
	}
	g.run("loaded", "loaded.test/web:1", false)
	g.waits("pod/loaded")

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	g.run("again", images["once"], false)
	g.waits("pod/again")
}

// push pushes an image with a program and 10 MB that can't be compressed, and returns its digest.
func push(t *testing.T, ref, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 10<<20)
	var seed [32]byte
	copy(seed[:], ref)
	rand.NewChaCha8(seed).Read(noise)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range []struct {
		name string
		data []byte
	}{{"web", data}, {"noise", noise}} {
		h := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(f.data))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, v1.Config{Entrypoint: []string{"/web"}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// garbage is the cluster with the name "full". The image store of its plane has a small disk.
type garbage struct {
	t       *testing.T
	o       own
	digests map[string]string // of the images of the registry, by kind
}

func (g garbage) kubectl(args ...string) string {
	g.t.Helper()
	return g.o.must(g.t, append([]string{"kubectl", "--cluster", "full"}, args...)...)
}

// run creates a pod that runs an image's web server, on the control plane or on the worker.
func (g garbage) run(pod, image string, controlPlane bool) {
	g.t.Helper()
	selector := "DoesNotExist"
	if controlPlane {
		selector = "Exists"
	}
	manifest := fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: %s}]}]
  containers: [{name: main, image: %q, args: [serve], readinessProbe: {httpGet: {port: 80}, periodSeconds: 1}}]
`, pod, selector, image)
	file := filepath.Join(g.t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		g.t.Fatal(err)
	}
	g.kubectl("apply", "-f", file)
}

// waits waits until pods are Ready.
func (g garbage) waits(pods ...string) {
	g.t.Helper()
	args := append([]string{"kubectl", "--cluster", "full", "wait", "--for=condition=Ready", "--timeout=90s"}, pods...)
	if out, err := g.o.run(g.t.Context(), args...); err != nil {
		events, _ := g.o.run(g.t.Context(), "kubectl", "--cluster", "full", "get", "pods,events")
		g.t.Fatalf("%v\n%s\n%s", err, out, events)
	}
}

// held lists the images of the registry that the store has, each with the number of hosts that hold it.
func (g garbage) held() string {
	g.t.Helper()
	var all []image.Image
	if err := json.Unmarshal([]byte(g.o.must(g.t, "image", "list", "-o", "json")), &all); err != nil {
		g.t.Fatal(err)
	}
	var held []string
	for _, kind := range []string{"once", "shared", "used"} {
		for _, i := range all {
			if i.Digest == g.digests[kind] {
				held = append(held, fmt.Sprintf("%s:%d", kind, i.Hosts))
			}
		}
	}
	return strings.Join(held, " ")
}

// fill writes a file until this percentage of the disk is used.
func (g garbage) fill(dir string, percent uint64) string {
	g.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		g.t.Fatal(err)
	}
	missing := st.Blocks*percent/100 - (st.Blocks - st.Bfree)
	file, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.CopyN(file, zeros{}, int64(missing)*int64(st.Bsize)); err != nil {
		g.t.Fatal(err)
	}
	return file.Name()
}

// until waits until the function check returns no error.
func (g garbage) until(what string, check func() error) {
	g.t.Helper()
	deadline := time.Now().Add(garbageLimit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			out, _ := g.o.run(g.t.Context(), "kubectl", "--cluster", "full", "events")
			g.t.Fatalf("%s: %v\n%s", what, err, out)
		}
		time.Sleep(250 * time.Millisecond)
	}
}
