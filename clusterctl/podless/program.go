package podless

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const loopback = "127.0.0.1"

// firstPort is the lowest port for processes. The plane's own ports are below it, the kernel's ephemeral ports far
// above.
const firstPort = 9500

// program is the container of a Deployment, to be run as a process.
type program struct {
	object     *unstructured.Unstructured
	deployment appsv1.Deployment
	container  *corev1.Container
	// ports maps ports of the container to ports of the process.
	ports map[int]int
	// hooks is the container's port for webhooks, or 0.
	hooks int
}

// newProgram reads a Deployment and refuses what a process cannot do.
func newProgram(o *unstructured.Unstructured) (*program, error) {
	p := &program{object: o, ports: map[int]int{}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p.deployment); err != nil {
		return nil, fmt.Errorf("reading Deployment %s: %w", name(o), err)
	}
	var errs []error
	refuse := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("Deployment %s "+format, append([]any{name(o)}, args...)...))
	}
	pod := &p.deployment.Spec.Template.Spec
	for _, c := range pod.InitContainers {
		refuse("has the init container %s, and only one binary is given", c.Name)
	}
	if len(pod.Containers) != 1 {
		var names []string
		for _, c := range pod.Containers {
			names = append(names, c.Name)
		}
		refuse("has %d containers (%s), and only one binary is given", len(names), strings.Join(names, ", "))
		return nil, errors.Join(errs...)
	}
	p.container = &pod.Containers[0]
	if len(p.container.EnvFrom) > 0 {
		refuse("takes its whole environment from elsewhere (envFrom)")
	}
	for _, e := range p.container.Env {
		if from := e.ValueFrom; from != nil && from.SecretKeyRef == nil && from.ConfigMapKeyRef == nil &&
			(from.FieldRef == nil || !slices.Contains(fields, from.FieldRef.FieldPath)) {
			refuse("has the variable %s with a value that only a Pod has", e.Name)
		}
	}
	for _, m := range p.container.VolumeMounts {
		if m.SubPath != "" || m.SubPathExpr != "" {
			refuse("mounts a part of volume %s", m.Name)
		}
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			continue // the API server rejects a mount without a volume
		}
		switch v := pod.Volumes[i]; {
		case v.Secret != nil, v.ConfigMap != nil, v.EmptyDir != nil:
		// The host has this directory already.
		case v.HostPath != nil && strings.TrimSuffix(v.HostPath.Path, "/") == strings.TrimSuffix(m.MountPath, "/"):
		default:
			refuse("has volume %s: without a Pod, the only volumes that work are Secrets, ConfigMaps, empty "+
				"directories, and directories of the machine that are mounted at the same path", m.Name)
		}
	}
	return p, errors.Join(errs...)
}

// fields are the Pod fields that a process gets as well.
var fields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "spec.serviceAccountName", "spec.nodeName",
	"status.podIP", "status.hostIP"}

// choose assigns a free port to each port of the container and each port in its flags.
func (p *program) choose(taken []int) {
	next := firstPort
	for _, port := range listens(p.container) {
		if p.ports[port] != 0 {
			continue
		}
		for slices.Contains(taken, next) {
			next++
		}
		p.ports[port] = next
		next++
	}
}

// Ports returns the ports that a Deployment's containers declare or their arguments name. For a rewritten Deployment
// these are the ports of its process.
func Ports(d *appsv1.Deployment) []int {
	var ports []int
	for i := range d.Spec.Template.Spec.Containers {
		ports = append(ports, listens(&d.Spec.Template.Spec.Containers[i])...)
	}
	return ports
}

func listens(container *corev1.Container) []int {
	var ports []int
	for _, c := range container.Ports {
		ports = append(ports, int(c.ContainerPort))
	}
	for _, arg := range container.Args {
		if flag, value, ok := strings.Cut(arg, "="); ok && isAddress(flag) {
			if _, port, ok := own(value); ok {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// isAddress reports whether a flag names, or at least may name, an address to listen on.
func isAddress(flag string) bool {
	return strings.HasSuffix(flag, "addr") || strings.HasSuffix(flag, "address")
}

// own splits an address of the container itself into host and port. It reports false for any other address.
func own(value string) (host string, port int, ok bool) {
	host, text, err := net.SplitHostPort(value)
	if err != nil || !slices.Contains([]string{"", "localhost", "0.0.0.0", "::", loopback, "::1"}, host) {
		return "", 0, false
	}
	port, err = strconv.Atoi(text)
	return host, port, err == nil && port > 0 && port < 1<<16
}

// serves returns the process's port for a container port given by name or number, and records the container port as the
// port for webhooks. It returns 0 if there is no such port.
func (p *program) serves(target any) int {
	for _, c := range p.container.Ports {
		n, ok := integer(target)
		if text, isText := target.(string); ok && n == int64(c.ContainerPort) || isText && text == c.Name {
			p.hooks = int(c.ContainerPort)
			return p.ports[p.hooks]
		}
	}
	return 0
}

// rewritten returns the Deployment with the annotation and with the ports and flags of the process. secrets are the
// Secrets with certificates.
func (p *program) rewritten(binary string, secrets map[string]bool) (*unstructured.Unstructured, error) {
	d, c := &p.deployment, p.container
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[BinaryAnnotation] = binary
	if ptr.Deref(d.Spec.Replicas, 1) > 1 {
		d.Spec.Replicas = ptr.To[int32](1)
	}
	c.Args = p.flags(secrets)
	for _, probe := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		if probe != nil && probe.HTTPGet != nil {
			p.translate(&probe.HTTPGet.Port)
		}
	}
	for i := range c.Ports {
		c.Ports[i].ContainerPort = int32(p.ports[int(c.Ports[i].ContainerPort)])
		c.Ports[i].HostPort = 0
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	if err != nil {
		return nil, fmt.Errorf("writing Deployment %s: %w", name(p.object), err)
	}
	delete(content, "status")
	o := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	o.SetGroupVersionKind(p.object.GroupVersionKind())
	return o, nil
}

func (p *program) translate(port *intstr.IntOrString) {
	if chosen := p.ports[port.IntValue()]; port.Type == intstr.Int && chosen != 0 {
		*port = intstr.FromInt(chosen)
	}
}

// flags returns the arguments of the process, with its own ports and without leader election. Where the manifest relies
// on a flag's default, the result has the flag, under the name that Cluster API's providers use.
func (p *program) flags(secrets map[string]bool) []string {
	named := map[int]bool{}
	var args []string
	for _, arg := range p.container.Args {
		flag, value, given := strings.Cut(arg, "=")
		_, port, isOwn := own(value)
		number, err := strconv.Atoi(value)
		switch bare := strings.TrimLeft(flag, "-"); {
		case bare == "leader-elect" || bare == "enable-leader-election":
			// A single process needs no election, and outside of a Pod it could not find out the namespace for its
			// Lease.
			arg = flag + "=false"
		case given && isAddress(flag) && isOwn:
			arg, named[port] = fmt.Sprintf("%s=%s:%d", flag, loopback, p.ports[port]), true
		case given && strings.HasSuffix(flag, "port") && err == nil && p.ports[number] != 0:
			arg, named[number] = fmt.Sprintf("%s=%d", flag, p.ports[number]), true
		}
		args = append(args, arg)
	}
	if p.hooks != 0 && !named[p.hooks] {
		args = append(args, fmt.Sprintf("--webhook-port=%d", p.ports[p.hooks]))
	}
	if directory := p.certificates(secrets); p.hooks != 0 && directory != "" &&
		!slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "="+directory) }) {
		args = append(args, "--webhook-cert-dir="+directory)
	}
	if port := p.health(); port != 0 && !named[port] {
		args = append(args, fmt.Sprintf("--health-addr=%s:%d", loopback, p.ports[port]))
	}
	return args
}

// certificates returns the path at which the container mounts its first Secret with a certificate.
func (p *program) certificates(secrets map[string]bool) string {
	for _, m := range p.container.VolumeMounts {
		for _, v := range p.deployment.Spec.Template.Spec.Volumes {
			if v.Name == m.Name && v.Secret != nil && secrets[v.Secret.SecretName] {
				return strings.TrimSuffix(m.MountPath, "/")
			}
		}
	}
	return ""
}

// health returns the container's port for health checks, or 0.
func (p *program) health() int {
	for _, probe := range []*corev1.Probe{p.container.ReadinessProbe, p.container.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			continue
		}
		for _, c := range p.container.Ports {
			if port := probe.HTTPGet.Port; port.StrVal == c.Name && port.Type == intstr.String ||
				port.Type == intstr.Int && port.IntVal == c.ContainerPort {
				return int(c.ContainerPort)
			}
		}
	}
	return 0
}
