package providers

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/hint"
)

// Dial opens a connection, like the method of net.Dialer.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// ServiceDialer returns a Dial that connects NAME.NAMESPACE.svc to the process of the provider that the Service
// selects, because the plane has no cluster network and no DNS for such names. It dials other addresses unchanged.
func ServiceDialer(reader client.Reader) Dial {
	dialer := &net.Dialer{}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		address, err := serviceAddress(ctx, reader, address)
		if err != nil {
			return nil, err
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// serviceAddress returns where a Service is served, if the address is that of a Service.
func serviceAddress(ctx context.Context, reader client.Reader, address string) (string, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("reading the address of an extension: %w", err)
	}
	parts := strings.Split(host, ".")
	if len(parts) != 3 || parts[2] != "svc" {
		return address, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		return "", fmt.Errorf("reading the address of an extension: %w", err)
	}
	key := client.ObjectKey{Namespace: parts[1], Name: parts[0]}
	var service corev1.Service
	if err := reader.Get(ctx, key, &service); apierrors.IsNotFound(err) {
		return "", hint.Errorf("install the extension again: capstan clusterctl init --provider-binary; or set url",
			"there is no Service %s", key)
	} else if err != nil {
		return "", fmt.Errorf("reading Service %s: %w", key, err)
	}
	var deployments appsv1.DeploymentList
	if err := reader.List(ctx, &deployments, client.InNamespace(key.Namespace)); err != nil {
		return "", fmt.Errorf("looking for what serves Service %s: %w", key, err)
	}
	port, err := processPort(&service, number, deployments.Items)
	if err != nil {
		return "", fmt.Errorf("the Service %s %w", key, err)
	}
	return net.JoinHostPort(loopback, strconv.Itoa(port)), nil
}

// processPort returns the port on which a provider's process serves a port of a Service. Pure.
func processPort(service *corev1.Service, number int, deployments []appsv1.Deployment) (int, error) {
	var target *intstr.IntOrString
	for _, p := range service.Spec.Ports {
		if int(p.Port) != number {
			continue
		}
		t := p.TargetPort
		if t.Type == intstr.Int && t.IntVal == 0 {
			t = intstr.FromInt32(p.Port)
		}
		target = &t
	}
	if target == nil {
		return 0, fmt.Errorf("has no port %d", number)
	}
	if len(service.Spec.Selector) == 0 {
		return 0, fmt.Errorf("selects nothing")
	}
	selected := labels.SelectorFromSet(service.Spec.Selector)
	for i := range deployments {
		d := &deployments[i]
		pod := &d.Spec.Template
		if d.Annotations[BinaryAnnotation] == "" || !selected.Matches(labels.Set(pod.Labels)) ||
			len(pod.Spec.Containers) != 1 {
			continue
		}
		for _, p := range pod.Spec.Containers[0].Ports {
			if target.Type == intstr.String && p.Name == target.StrVal ||
				target.Type == intstr.Int && p.ContainerPort == target.IntVal {
				return int(p.ContainerPort), nil
			}
		}
		return 0, fmt.Errorf("leads to port %s, which Deployment %s doesn't have", target, d.Name)
	}
	return 0, fmt.Errorf("leads to nothing that runs as a process of the plane, which has no other network")
}
