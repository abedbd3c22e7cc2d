package topology

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Input is what accompanies a template.
type Input struct {
	// Holder identifies where the template is used.
	Holder runtimehooksv1.HolderReference
	// Variables are the Cluster's, overridden by those of this template.
	Variables []runtimehooksv1.Variable
	// Settings of the call.
	Settings map[string]string
}

// Builtins returns the variables that Cluster API adds: names, versions, replicas.
func (i Input) Builtins() (*runtimehooksv1.Builtins, error) {
	builtins := &runtimehooksv1.Builtins{}
	for _, v := range i.Variables {
		if v.Name != runtimehooksv1.BuiltinsName {
			continue
		}
		// The template's builtins come after the Cluster's and fill in what those leave out.
		if err := json.Unmarshal(v.Value.Raw, builtins); err != nil {
			return nil, fmt.Errorf("decoding the builtin variables: %w", err)
		}
	}
	return builtins, nil
}

// Match reports whether a template is selected.
type Match func(template metav1.TypeMeta, holder runtimehooksv1.HolderReference) bool

// Kind matches templates of a kind in all versions of its group.
func Kind(group, kind string) Match {
	return func(template metav1.TypeMeta, _ runtimehooksv1.HolderReference) bool {
		gv, err := schema.ParseGroupVersion(template.APIVersion)
		return err == nil && gv.Group == group && template.Kind == kind
	}
}

// ForControlPlane narrows the match to the template of the control plane's machines.
func (m Match) ForControlPlane() Match {
	return func(template metav1.TypeMeta, holder runtimehooksv1.HolderReference) bool {
		return m(template, holder) && holder.Kind != "Cluster" && holder.Kind != "MachineDeployment" &&
			holder.Kind != "MachinePool"
	}
}

// ForWorkers narrows the match to templates of MachineDeployments and MachinePools.
func (m Match) ForWorkers() Match {
	return func(template metav1.TypeMeta, holder runtimehooksv1.HolderReference) bool {
		return m(template, holder) && (holder.Kind == "MachineDeployment" || holder.Kind == "MachinePool")
	}
}

// merged overrides the Cluster's variables with those of a template. It keeps the builtin ones of both, because each
// has parts of its own.
func merged(global, own []runtimehooksv1.Variable) []runtimehooksv1.Variable {
	replaced := map[string]bool{}
	for _, v := range own {
		replaced[v.Name] = v.Name != runtimehooksv1.BuiltinsName
	}
	var all []runtimehooksv1.Variable
	for _, v := range global {
		if !replaced[v.Name] {
			all = append(all, v)
		}
	}
	return append(all, own...)
}

func typeOf(object []byte) (metav1.TypeMeta, error) {
	var template metav1.TypeMeta
	if err := json.Unmarshal(object, &template); err != nil {
		return template, fmt.Errorf("decoding a template: %w", err)
	}
	if template.APIVersion == "" || template.Kind == "" {
		return template, fmt.Errorf("a template has no apiVersion or no kind")
	}
	return template, nil
}
