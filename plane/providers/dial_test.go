package providers

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestServiceDialer reaches a process by the name of its Service, and checks the errors if it can't.
func TestServiceDialer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "here")
			_ = c.Close()
		}
	}()
	port := int32(listener.Addr().(*net.TCPAddr).Port)
	service := func(target intstr.IntOrString, change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ext-system", Name: "hooks"},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "ext"}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: target}},
			},
		}
		change(s)
		return s
	}
	same := func(*corev1.Service) {}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ext-system", Name: "ext", Annotations: map[string]string{BinaryAnnotation: "/opt/ext"},
	}}
	deployment.Spec.Template.Labels = map[string]string{"app": "ext", "more": "labels"}
	deployment.Spec.Template.Spec.Containers = []corev1.Container{
		{Name: "manager", Ports: []corev1.ContainerPort{{Name: "webhook-server", ContainerPort: port}}},
	}
	pods := deployment.DeepCopy()
	pods.Annotations = nil
	const name = "hooks.ext-system.svc:443"
	for what, c := range map[string]struct {
		service    *corev1.Service
		deployment *appsv1.Deployment
		address    string
		err        string
	}{
		"a target port given by name": {
			service(intstr.FromString("webhook-server"), same), deployment, name, "",
		},
		"a target port given by number":      {service(intstr.FromInt32(port), same), deployment, name, ""},
		"an address that is not a Service's": {nil, nil, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))), ""},
		"a Service that does not exist":      {nil, deployment, name, "there is no Service ext-system/hooks"},
		"a port the Service lacks": {service(intstr.FromInt32(port), same), deployment, "hooks.ext-system.svc:8443",
			"has no port 8443"},
		"a port the process lacks": {service(intstr.FromString("metrics"), same), deployment, name,
			"port metrics, which Deployment ext doesn't have"},
		"a Service without a selector": {service(intstr.FromInt32(port), func(s *corev1.Service) { s.Spec.Selector = nil }),
			deployment, name, "selects nothing"},
		"a Service that selects other Pods": {
			service(intstr.FromInt32(port), func(s *corev1.Service) { s.Spec.Selector["app"] = "other" }), deployment, name,
			"leads to nothing that runs",
		},
		"a Deployment that does not run as a process": {
			service(intstr.FromInt32(port), same), pods, name, "leads to nothing that runs",
		},
	} {
		t.Run(what, func(t *testing.T) {
			world := fake.NewClientBuilder()
			for _, o := range []client.Object{c.service, c.deployment} {
				switch o := o.(type) {
				case *corev1.Service:
					if o != nil {
						world.WithObjects(o.DeepCopy())
					}
				case *appsv1.Deployment:
					if o != nil {
						world.WithObjects(o.DeepCopy())
					}
				}
			}
			conn, err := ServiceDialer(world.Build())(t.Context(), "tcp", c.address)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if text, err := io.ReadAll(conn); err != nil || string(text) != "here" {
				t.Errorf("the connection returned %q, error %v", text, err)
			}
		})
	}
}
