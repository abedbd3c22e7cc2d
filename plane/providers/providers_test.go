package providers

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// patience bounds every wait: the machine may be busy.
const patience = 2 * time.Minute

// TestMain lets this binary act as the provider, too.
func TestMain(m *testing.M) {
	if os.Getenv("PROVIDER") != "" {
		if err := beProvider(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		return
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// told is what a provider records when it starts.
type told struct {
	Pid             int
	Word, Key, Mode string
	User            string
}

// beProvider acts as a provider: it records what it was given, and works until it is asked to stop.
func beProvider() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	health, word, key := flag.String("health-addr", "", ""), flag.String("word", "", ""), flag.String("key", "", "")
	if err := flag.CommandLine.Parse(os.Args[1:]); err != nil {
		return err
	}
	if *word == "crash" {
		return errors.New("I was told to crash")
	}
	secret, err := os.ReadFile(*key)
	if err != nil {
		return err
	}
	settings, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	token, err := os.ReadFile(settings.AuthInfos["provider"].TokenFile)
	if err != nil {
		return err
	}
	info, err := os.Stat(settings.AuthInfos["provider"].TokenFile)
	if err != nil {
		return err
	}
	line, err := json.Marshal(told{os.Getpid(), *word, string(secret), info.Mode().String(),
		fmt.Sprint(len(strings.Split(string(token), ".")))})
	if err != nil {
		return err
	}
	out, err := os.OpenFile(os.Getenv("PROVIDER"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.Write(append(line, '\n')); err != nil {
		return err
	}
	server := &http.Server{Addr: *health, ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if sick, err := os.ReadFile(os.Getenv("PROVIDER") + ".sick"); err == nil &&
				strings.Contains(string(sick), r.URL.Path) {
				http.Error(w, "sick", http.StatusInternalServerError)
			}
		})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// bench is a running controller with one Deployment.
type bench struct {
	*testing.T
	api      client.Client
	dir, out string
	d        *appsv1.Deployment
	end      func()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server, err := apiserver.Start(apiserver.Options{})
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, dir: t.TempDir(), out: filepath.Join(t.TempDir(), "out")}
	b.must(os.MkdirAll(filepath.Join(b.dir, directory, "old", "gone"), 0o700))
	mgr, err := ctrl.NewManager(server.Config, ctrl.Options{
		// allows -count
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	b.must(err)
	b.must(Setup(mgr, Options{
		Dir: b.dir, Logs: b.dir, Server: server.Config.Host, CA: server.Config.CAData, Grace: time.Second, Env: os.Environ(),
		look: 20 * time.Millisecond, retry: 20 * time.Millisecond,
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	b.end = func() {
		cancel()
		b.must(<-ended)
		ended <- nil
	}
	t.Cleanup(b.end)
	b.api, err = client.New(server.Config, client.Options{Scheme: mgr.GetScheme()})
	b.must(err)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(b.dir, "provider-default-x.log"))
			b.Fatalf("not within %s: %s; the Deployment's status is %+v, the log\n%s", patience, what, b.d.Status, log)
		}
	}
}

// starts returns all starts of the provider.
func (b *bench) starts() (all []told) {
	b.Helper()
	text, err := os.ReadFile(b.out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	b.must(err)
	for line := range strings.Lines(string(text)) {
		var s told
		if json.Unmarshal([]byte(line), &s) == nil {
			all = append(all, s)
		}
	}
	return all
}

// works waits until the Deployment is available through a process that started after the first n, and returns that
// start.
func (b *bench) works(after int) told {
	b.Helper()
	b.until("the provider works", func() bool {
		return len(b.starts()) > after && b.available() == corev1.ConditionTrue && b.d.Status.ReadyReplicas == 1
	})
	return b.starts()[len(b.starts())-1]
}

// available returns the status of the Deployment's condition.
func (b *bench) available() corev1.ConditionStatus {
	b.Helper()
	b.must(b.api.Get(b.Context(), client.ObjectKeyFromObject(b.d), b.d))
	i := slices.IndexFunc(b.d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable
	})
	if i < 0 || b.d.Status.ObservedGeneration != b.d.Generation {
		return corev1.ConditionUnknown
	}
	return b.d.Status.Conditions[i].Status
}

// says waits until the Deployment is unavailable with this text as the reason.
func (b *bench) says(text string) {
	b.Helper()
	b.until("the status of the Deployment contains "+text, func() bool {
		return b.available() == corev1.ConditionFalse && strings.Contains(b.d.Status.Conditions[0].Message, text)
	})
}

// remarks waits until the Deployment is available and its message contains this text.
func (b *bench) remarks(text string) {
	b.Helper()
	b.until("the Deployment is available, and its message contains "+text, func() bool {
		return b.available() == corev1.ConditionTrue && strings.Contains(b.d.Status.Conditions[0].Message, text)
	})
}

// renews makes the token look old, and waits until it is replaced.
func (b *bench) renews() {
	b.Helper()
	token := filepath.Join(b.dir, directory, "default", "x", "token")
	before, err := os.ReadFile(token)
	b.must(err)
	old := time.Now().Add(-tokenLifetime/2 - time.Minute)
	b.must(os.Chtimes(token, old, old))
	b.until("the token is replaced", func() bool {
		now, err := os.ReadFile(token)
		b.must(err)
		return string(now) != string(before)
	})
}

func (b *bench) change(how func()) {
	b.Helper()
	b.must(b.api.Get(b.Context(), client.ObjectKeyFromObject(b.d), b.d))
	before := b.d.DeepCopy()
	how()
	b.must(b.api.Patch(b.Context(), b.d, client.MergeFrom(before)))
}

// gone waits until a process has ended.
func (b *bench) gone(pid int) {
	b.Helper()
	b.until(fmt.Sprintf("process %d has ended", pid),
		func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// TestLife: a process always matches its Deployment, its Secret and its file, from its first start to its deletion.
func TestLife(t *testing.T) {
	b := newBench(t)
	program := filepath.Join(t.TempDir(), "program")
	self, err := os.Executable()
	b.must(err)
	b.must(os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\"\n", self), 0o700))
	b.d = deployment(program, b.out, b.freePort())
	// a function, because each read of the Deployment replaces the slice
	container := func() *corev1.Container { return &b.d.Spec.Template.Spec.Containers[0] }
	b.must(b.api.Create(b.Context(), b.d))
	b.until("the directory of a deleted provider is removed", func() bool {
		_, err := os.Stat(filepath.Join(b.dir, directory, "old"))
		return errors.Is(err, os.ErrNotExist)
	})

	b.says("may not run here")
	b.must(Allow(b.dir, program))
	b.says(`"key" not found`)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}, Data: map[string][]byte{"tls.key": []byte("first")},
	}
	b.must(b.api.Create(b.Context(), secret))
	b.says("ServiceAccount x")
	b.must(b.api.Create(b.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
	}))
	now := b.works(0)
	if now.Word != "default" || now.Key != "first" || now.Mode != "-rw-------" || now.User != "3" {
		t.Errorf("the provider was given %+v", now)
	}

	n := len(b.starts())
	secret.Data["tls.key"] = []byte("second")
	b.must(b.api.Update(b.Context(), secret))
	if now = b.works(n); now.Key != "second" {
		t.Errorf("after a change of its Secret the provider was given %+v", now)
	}

	n = len(b.starts())
	b.must(os.Chtimes(program, time.Now(), time.Now().Add(time.Hour)))
	now = b.works(n)

	n = len(b.starts())
	b.must(syscall.Kill(now.Pid, syscall.SIGKILL))
	b.works(n)
	b.until("an Event says how the process exited", func() bool {
		list := &eventsv1.EventList{}
		b.must(b.api.List(b.Context(), list))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "ProcessEnded" && e.Regarding.Name == "x" && strings.Contains(e.Note, "signal: killed")
		})
	})

	n = len(b.starts())
	sick := b.out + ".sick"
	b.must(os.WriteFile(sick, []byte("/readyz"), 0o600))
	b.says("its readiness probe fails")
	b.must(os.Remove(sick))
	b.until("the provider works again", func() bool { return b.available() == corev1.ConditionTrue })
	if len(b.starts()) != n {
		t.Error("a provider that was not ready for a while was restarted")
	}
	b.must(os.WriteFile(sick, []byte("/livez"), 0o600))
	b.says("its liveness probe failed 1 times")
	b.must(os.Remove(sick))
	b.works(n)

	// A token is renewed in time, without a new process.
	n = len(b.starts())
	b.renews()

	// This also works while the program and a Secret that a restart needs are missing.
	b.must(os.Rename(program, program+".away"))
	b.remarks("looking at the program")
	b.renews()
	b.must(os.Rename(program+".away", program))
	b.must(b.api.Delete(b.Context(), secret))
	b.remarks(`"key" not found`)
	b.renews()
	secret.ResourceVersion = ""
	b.must(b.api.Create(b.Context(), secret))
	b.until("the message of the Deployment is back to normal", func() bool {
		return b.available() == corev1.ConditionTrue && b.d.Status.Conditions[0].Message == "The process of the plane works."
	})
	if len(b.starts()) != n {
		t.Error("the provider was restarted for a new token, or because something was missing for a while")
	}

	good := slices.Clone(container().Args)
	b.change(func() { container().Args[0] = "--word=crash" })
	b.says("I was told to crash")
	n = len(b.starts())
	b.change(func() { container().Args = good })
	now = b.works(n)

	b.change(func() { b.d.Spec.Replicas = ptr.To[int32](0) })
	b.says("no replicas")
	b.gone(now.Pid)
	if b.d.Status.Replicas != 0 {
		t.Errorf("without a process, the status has %d replicas", b.d.Status.Replicas)
	}

	n = len(b.starts())
	b.change(func() { b.d.Spec.Replicas = ptr.To[int32](1) })
	now = b.works(n)
	b.must(b.api.Delete(b.Context(), b.d))
	b.gone(now.Pid)
	b.until("the directory of the provider is removed", func() bool {
		left, err := filepath.Glob(filepath.Join(b.dir, directory, "*"))
		b.must(err)
		return len(left) == 0
	})

	n = len(b.starts())
	b.d = deployment(program, b.out, b.freePort())
	b.must(b.api.Create(b.Context(), b.d))
	now = b.works(n)
	b.end()
	if err := syscall.Kill(now.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the provider has outlived the plane: %v", err)
	}
}

// freePort returns a port on which nobody listens.
func (b *bench) freePort() int {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// deployment returns the Deployment of a provider that needs everything: a Secret as a volume, a variable, a
// ServiceAccount, a probe.
func deployment(program, out string, port int) *appsv1.Deployment {
	labels := map[string]string{"a": "b"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "x", Annotations: map[string]string{BinaryAnnotation: program},
		},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: "x",
				Volumes: []corev1.Volume{
					{Name: "certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}},
				},
				Containers: []corev1.Container{{
					Name: "manager", Image: "example.com/x", Command: []string{"/manager"},
					Args: []string{"--word=$(NAMESPACE)", "--key=/certs/tls.key", fmt.Sprintf("--health-addr=127.0.0.1:%d", port)},
					Env: []corev1.EnvVar{
						{Name: "PROVIDER", Value: out},
						{Name: "NAMESPACE", ValueFrom: &corev1.EnvVarSource{
							FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"},
						}},
					},
					VolumeMounts: []corev1.VolumeMount{{Name: "certs", MountPath: "/certs"}},
					ReadinessProbe: &corev1.Probe{
						ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt(port)}},
						PeriodSeconds: 1, FailureThreshold: 1,
					},
					LivenessProbe: &corev1.Probe{
						ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/livez", Port: intstr.FromInt(port)}},
						PeriodSeconds: 1, FailureThreshold: 1,
					},
				}},
			}},
		},
	}
}
