package topology

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

// Input is what comes with a template.
type Input struct {
	// Holder says where the template is used.
	Holder runtimehooksv1.HolderReference
	// Variables are those of the Cluster, and above them those of this template.
	Variables []runtimehooksv1.Variable
	// Settings of the call.
	Settings map[string]string
}

// Builtins gives the variables that Cluster API adds: names, versions, replicas.
func (i Input) Builtins() (*runtimehooksv1.Builtins, error) {
	builtins := &runtimehooksv1.Builtins{}
	for _, v := range i.Variables {
		if v.Name != runtimehooksv1.BuiltinsName {
			continue
		}
		// Those of a template come after those of the Cluster, and fill in what those leave out.
		if err := json.Unmarshal(v.Value.Raw, builtins); err != nil {
			return nil, fmt.Errorf("decoding the builtin variables: %w", err)
		}
	}
	return builtins, nil
}

// Match tells which templates a part is for.
type Match func(template metav1.TypeMeta, holder runtimehooksv1.HolderReference) bool

// Kind matches templates of a kind, in all versions of its group.
func Kind(group, kind string) Match {
	return func(template metav1.TypeMeta, _ runtimehooksv1.HolderReference) bool {
		gv, err := schema.ParseGroupVersion(template.APIVersion)
		return err == nil && gv.Group == group && template.Kind == kind
	}
}

// ForControlPlane narrows to the template of the machines of the control plane.
func (m Match) ForControlPlane() Match {
	return func(template metav1.TypeMeta, holder runtimehooksv1.HolderReference) bool {
		return m(template, holder) && holder.Kind != "Cluster" && holder.Kind != "MachineDeployment" &&
			holder.Kind != "MachinePool"
	}
}

// ForWorkers narrows to templates of MachineDeployments and MachinePools.
func (m Match) ForWorkers() Match {
	return func(template metav1.TypeMeta, holder runtimehooksv1.HolderReference) bool {
		return m(template, holder) && (holder.Kind == "MachineDeployment" || holder.Kind == "MachinePool")
	}
}

// merged puts variables of a template over those of the Cluster. The builtin ones of both stay, because each has parts
// of its own.
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
