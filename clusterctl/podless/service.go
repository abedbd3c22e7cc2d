package podless

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// infer finds the webhook port of a program if no object in the provider's components refers to it. An example is an
// extension whose ExtensionConfig is created later. If the program mounts a certificate, infer uses the port behind one
// of its Services.
func (p *program) infer(services []*unstructured.Unstructured, secrets map[string]bool) {
	if p.hooks != 0 || p.certificates(secrets) == "" {
		return
	}
	for _, s := range services {
		for _, port := range portsOf(s) {
			if s.GetNamespace() == p.object.GetNamespace() && p.serves(target(port)) != 0 {
				return
			}
		}
	}
}

// retarget points a Service to the ports of the process. Nothing in the plane routes Services, but its runtime client
// uses them to find the extension of an ExtensionConfig.
func (p *program) retarget(s *unstructured.Unstructured) error {
	ports, ok, err := unstructured.NestedSlice(s.Object, "spec", "ports")
	if err != nil {
		return fmt.Errorf("reading the ports of Service %s: %w", name(s), err)
	}
	if !ok {
		return nil
	}
	for _, item := range ports {
		port, isMap := item.(map[string]any)
		if !isMap {
			continue
		}
		if number, isNumber := integer(target(port)); isNumber && p.ports[int(number)] != 0 {
			port["targetPort"] = int64(p.ports[int(number)])
		}
	}
	return unstructured.SetNestedSlice(s.Object, ports, "spec", "ports")
}

// portsOf returns the ports of a Service.
func portsOf(s *unstructured.Unstructured) []map[string]any {
	items, _, _ := unstructured.NestedSlice(s.Object, "spec", "ports")
	var ports []map[string]any
	for _, item := range items {
		if port, ok := item.(map[string]any); ok {
			ports = append(ports, port)
		}
	}
	return ports
}

// target returns the target of a Service port: a number, or the name of a container port.
func target(port map[string]any) any {
	if t := port["targetPort"]; t != nil {
		return t
	}
	return port["port"]
}
