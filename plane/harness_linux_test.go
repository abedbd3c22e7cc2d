package plane_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/plane/progress"
)

// patience bounds every wait of these tests. It is long only because the machine may be busy.
const patience = 3 * time.Minute

// running is a plane in a separate process.
type running struct {
	launched time.Time // a killed plane leaves its files; the files of this plane are newer
	t        *testing.T
	dir      string
	cmd      *exec.Cmd
	output   *bytes.Buffer
	exited   chan struct{}
	metrics  string // the manager's metrics address
}

// kube returns the newest built bundle, or skips the test.
func kube(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("this test starts a whole plane, which takes too long for -short")
	}
	bin := home.Binaries("../bin")
	bundles := bin.Bundles()
	if len(bundles) == 0 {
		t.Skip("no bundle was built: run make build")
	}
	path, err := bin.Kube(bundles[0])
	if err != nil {
		t.Fatal(err)
	}
	if path, err = filepath.Abs(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// launch starts a plane in dir and does not wait.
func launch(t *testing.T, dir string) *running {
	t.Helper()
	r := &running{t: t, dir: dir, output: &bytes.Buffer{}, exited: make(chan struct{}), metrics: freeAddress(t)}
	r.cmd = exec.Command(os.Args[0])
	r.cmd.Env = append(os.Environ(), "PLANE_DIR="+dir, "PLANE_KUBE="+kube(t), "PLANE_METRICS="+r.metrics)
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	r.launched = time.Now()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.exited)
	}()
	t.Cleanup(r.kill)
	return r
}

// start starts a plane in dir and waits until it is ready.
func start(t *testing.T, dir string) *running {
	t.Helper()
	r := launch(t, dir)
	eventually(t, "the plane to be ready", func() error {
		select {
		case <-r.exited:
			t.Fatalf("the plane exited:\n%s", r.tail())
		default:
		}
		if _, err := os.Stat(filepath.Join(dir, progress.ReadyFile)); err != nil {
			return err
		}
		if state := r.state(); state.Started.Before(r.launched) || !state.Ready {
			return errors.New("the file was written by an earlier plane")
		}
		return nil
	})
	return r
}

// kill kills the plane with SIGKILL, if the plane is still running.
func (r *running) kill() {
	_ = r.cmd.Process.Kill()
	<-r.exited
}

// stop stops the plane cleanly.
func (r *running) stop() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.exited:
	case <-time.After(patience):
		r.t.Fatalf("the plane does not stop:\n%s", r.tail())
	}
	if code := r.cmd.ProcessState.ExitCode(); code != 0 {
		r.t.Fatalf("the plane exited with status %d:\n%s", code, r.tail())
	}
}

// tail returns the end of the plane's output. Use it only if the plane has exited, or if the test fails anyway.
func (r *running) tail() string {
	lines := strings.Split(r.output.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

func (r *running) state() progress.State {
	state, _ := progress.Read(r.dir)
	return state
}

// pid returns the process id of a child of the plane.
func (r *running) pid(name string) int {
	r.t.Helper()
	for _, c := range r.state().Components {
		if c.Name == name && c.Pid != 0 {
			return c.Pid
		}
	}
	r.t.Fatalf("the plane has no %s: %+v", name, r.state().Components)
	return 0
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %v", patience, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// config returns the configuration in the user's kubeconfig.
func (r *running) config() *rest.Config {
	r.t.Helper()
	data, err := plane.UserKubeconfig(r.dir, r.state().Server)
	if err != nil {
		r.t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		r.t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// client returns the user's client.
func (r *running) client() client.Client {
	r.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme,
		clusterv1beta1.AddToScheme, runtimev1.AddToScheme} {
		if err := add(scheme); err != nil {
			r.t.Fatal(err)
		}
	}
	c, err := client.New(r.config(), client.Options{Scheme: scheme})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// left returns the processes that work for the plane in dir.
func left(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		pid := filepath.Base(filepath.Dir(path))
		if pid == strconv.Itoa(os.Getpid()) {
			continue
		}
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(dir)) {
			found = append(found, pid+" "+string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// bounded returns a context for the requests of one test.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}
