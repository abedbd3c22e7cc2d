//go:build linux

package clusterctl

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/test/apiserver"
)

// pod is a process that runs as a Deployment specifies: with the Deployment's arguments, the token of its
// ServiceAccount, and its certificates. This file does what a kubelet, a network and cert-manager would do, because no
// containers run.
type pod struct {
	*exec.Cmd
	log   string
	ended chan struct{}
	// ports are the ports of this machine that replace the container's, by name.
	ports map[string]int
}

// image says what to run instead of a container's image.
type image struct {
	// files has an entry for each file of the image that the container's command or arguments name. It maps the file's
	// path in the image to its path on this machine.
	files map[string]string
	// ports has an entry for each port whose flag is missing in the Deployment. It maps the port's name to the flag,
	// with %d for the port's number.
	ports map[string]string
	// more are additional arguments, with %s for the path of the kubeconfig. They replace what a Pod learns from its
	// environment.
	more []string
}

// binary returns the path of one of our programs.
func binary(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(apiserver.Root(), "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("bin/%s is not built: run make build", name)
	}
	return path
}

// runs starts a Deployment that clusterctl has installed, and waits until its readiness probe succeeds.
func (w *world) runs(namespace, name string, from image) *pod {
	w.Helper()
	d := &appsv1.Deployment{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, d))
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	if len(spec.Containers) != 1 || len(c.Command) != 1 || from.files[c.Command[0]] == "" {
		w.Fatalf("Deployment %s has %d containers, the first of which runs %v", name, len(spec.Containers), c.Command)
	}
	p := &pod{ports: map[string]int{}, ended: make(chan struct{}), log: filepath.Join(w.TempDir(), "log")}
	replace := map[string]string{} // maps values of the container's flags to the values that the process gets
	for inside, outside := range from.files {
		replace[inside] = outside
	}
	args := variables(d)
	free := freePorts(w, len(c.Ports))
	for i, port := range c.Ports {
		p.ports[port.Name] = free[i]
		own := fmt.Sprintf(":%d", port.ContainerPort)
		if replace[own] = fmt.Sprintf("127.0.0.1:%d", p.ports[port.Name]); !slices.ContainsFunc(args,
			func(a string) bool { return strings.HasSuffix(a, "="+own) }) {
			args = append(args, fmt.Sprintf(from.ports[port.Name], p.ports[port.Name]))
		}
	}
	services := w.route(d, p.ports)
	for _, v := range spec.Volumes {
		dir := w.TempDir()
		if v.Secret != nil {
			w.certified(namespace, v.Secret.SecretName, dir, services)
		}
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name {
				replace[m.MountPath] = dir
			}
		}
	}
	for i, a := range args {
		if flag, value, _ := strings.Cut(a, "="); replace[value] != "" {
			args[i] = flag + "=" + replace[value]
		}
	}
	kubeconfig := w.token(namespace, spec.ServiceAccountName)
	for _, a := range from.more {
		args = append(args, strings.ReplaceAll(a, "%s", kubeconfig))
	}
	p.Cmd = exec.Command(from.files[c.Command[0]], args...)
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig, "TMPDIR=" + w.TempDir()}
	w.start(p)
	w.until(name+" is ready", func() bool {
		select {
		case <-p.ended:
			w.Fatalf("%s %v has exited: %v", name, args, p.ProcessState)
		default:
		}
		return p.ready(c.ReadinessProbe.HTTPGet.Path)
	})
	return p
}

// start starts a pod and stops it at the end of the test. If the test has failed, it shows the pod's log.
func (w *world) start(p *pod) {
	w.Helper()
	log, err := os.Create(p.log)
	w.must(err)
	defer log.Close()
	p.Stdout, p.Stderr = log, log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.must(p.Start())
	go func() {
		_ = p.Wait() // the state says how it exited
		close(p.ended)
	}()
	w.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		if text, _ := os.ReadFile(p.log); w.Failed() {
			w.Logf("%s:\n%s", strings.Join(p.Args, " "), text[max(0, len(text)-8<<10):])
		}
	})
}

// ready calls the readiness probe.
func (p *pod) ready(path string) bool {
	answer, err := (&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Get(
		fmt.Sprintf("http://127.0.0.1:%d%s", p.ports["healthz"], path))
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// stop stops a pod like a kubelet.
func (w *world) stop(p *pod) {
	w.Helper()
	w.must(p.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
	case <-time.After(patience):
		w.Fatalf("%s doesn't exit", p.Path)
	}
	if code := p.ProcessState.ExitCode(); code != 0 {
		w.Errorf("%s exited with status %d", p.Path, code)
	}
}

// variables returns the arguments of a Deployment's container, with the variables of its environment filled in.
func variables(d *appsv1.Deployment) []string {
	var args []string
	c := d.Spec.Template.Spec.Containers[0]
	for _, a := range c.Args {
		for _, e := range c.Env {
			value := e.Value
			if from := e.ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace" {
				value = d.Namespace
			}
			a = strings.ReplaceAll(a, "$("+e.Name+")", value)
		}
		args = append(args, a)
	}
	return args
}

// freePorts returns n different ports. Separate calls could return the same port twice.
func freePorts(w *world, n int) (ports []int) {
	w.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		w.must(err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// route points the Services of a Deployment to this machine, and returns their ports here.
func (w *world) route(d *appsv1.Deployment, ports map[string]int) map[string]int {
	w.Helper()
	to := map[string]int{}
	services := &corev1.ServiceList{}
	w.must(w.api.List(w.Context(), services, client.InNamespace(d.Namespace)))
	for i := range services.Items {
		s := &services.Items[i]
		if len(s.Spec.Selector) > 0 && !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
			continue
		}
		target := s.Spec.Ports[0].TargetPort.String()
		for _, port := range d.Spec.Template.Spec.Containers[0].Ports {
			if target == port.Name || target == strconv.Itoa(int(port.ContainerPort)) {
				to[s.Name] = ports[port.Name]
			}
		}
		w.must(w.api.Delete(w.Context(), s))
		w.must(w.api.Create(w.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
		}))
	}
	if len(to) == 0 {
		w.Fatalf("no Service leads to Deployment %s", d.Name)
	}
	return to
}

// certified does what cert-manager does for the Certificate that names a Secret: it creates the Secret, and injects the
// authority into every object that requests it. It also writes the Secret's files into the directory.
func (w *world) certified(namespace, secret, dir string, services map[string]int) {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("cert-manager.io/v1")
	list.SetKind("CertificateList")
	w.must(w.api.List(w.Context(), list, client.InNamespace(namespace)))
	for _, o := range list.Items {
		if name, _, _ := unstructured.NestedString(o.Object, "spec", "secretName"); name != secret {
			continue
		}
		hosts, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "dnsNames")
		if len(hosts) == 0 {
			w.Fatalf("Certificate %s has no names", o.GetName())
		}
		chain, key, err := certutil.GenerateSelfSignedCertKey(hosts[0], nil, hosts[1:])
		w.must(err)
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": chain, "tls.key": key, "ca.crt": chain},
		}
		w.must(client.IgnoreNotFound(w.api.Delete(w.Context(), s.DeepCopy())))
		w.must(w.api.Create(w.Context(), s))
		for file, data := range s.Data {
			w.must(os.WriteFile(filepath.Join(dir, file), data, 0o600))
		}
		w.inject(namespace+"/"+o.GetName(), chain, services)
		return
	}
	w.Fatalf("no Certificate names Secret %s", secret)
}

// inject writes an authority into definitions and webhooks that are annotated for it, and replaces their Services by
// addresses on this machine.
func (w *world) inject(certificate string, ca []byte, services map[string]int) {
	w.Helper()
	const annotation = "cert-manager.io/inject-ca-from"
	definitions, hooks := &apiextensionsv1.CustomResourceDefinitionList{},
		&admissionregistrationv1.ValidatingWebhookConfigurationList{}
	w.must(w.api.List(w.Context(), definitions))
	w.must(w.api.List(w.Context(), hooks))
	for i := range definitions.Items {
		if crd := &definitions.Items[i]; crd.Annotations[annotation] == certificate {
			before := crd.DeepCopy()
			to := crd.Spec.Conversion.Webhook.ClientConfig
			to.CABundle, to.Service.Port = ca, ptr.To(int32(services[to.Service.Name]))
			w.must(w.api.Patch(w.Context(), crd, client.MergeFrom(before)))
		}
	}
	for i := range hooks.Items {
		if h := &hooks.Items[i]; h.Annotations[annotation] == certificate {
			before := h.DeepCopy()
			for j := range h.Webhooks {
				to := &h.Webhooks[j].ClientConfig
				to.CABundle, to.Service.Port = ca, ptr.To(int32(services[to.Service.Name]))
			}
			w.must(w.api.Patch(w.Context(), h, client.MergeFrom(before)))
		}
	}
}

// token writes a kubeconfig with a token of a ServiceAccount.
func (w *world) token(namespace, account string) string {
	w.Helper()
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	w.must(w.api.SubResource("token").Create(w.Context(), owner, request))
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	w.must(err)
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	path := filepath.Join(w.TempDir(), "kubeconfig")
	w.must(clientcmd.WriteToFile(*config, path))
	return path
}

// network is a proxy that knows the names of Services, as the DNS of a cluster does.
func (w *world) network(addresses map[string]string) (url string) {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	proxy := &http.Server{ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			to, ok := addresses[r.Host]
			if r.Method != http.MethodConnect || !ok {
				http.Error(out, "no such Service", http.StatusBadGateway)
				return
			}
			there, err := (&net.Dialer{Timeout: patience}).DialContext(r.Context(), "tcp", to)
			if err != nil {
				http.Error(out, err.Error(), http.StatusBadGateway)
				return
			}
			out.WriteHeader(http.StatusOK)
			here, buffered, err := http.NewResponseController(out).Hijack()
			if err != nil {
				there.Close()
				return
			}
			done := make(chan struct{}, 2)
			go func() { _, _ = io.Copy(there, buffered); done <- struct{}{} }()
			go func() { _, _ = io.Copy(here, there); done <- struct{}{} }()
			<-done
			there.Close()
			here.Close()
			<-done
		})}
	ended := make(chan struct{})
	go func() { _ = proxy.Serve(l); close(ended) }()
	w.Cleanup(func() {
		w.must(proxy.Close())
		<-ended
	})
	return "http://" + l.Addr().String()
}
