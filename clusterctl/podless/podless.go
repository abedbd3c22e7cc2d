// Package podless rewrites the components of a provider so that its controller can run as a process on a machine,
// without Pods, a cluster network or cert-manager.
//
// [Rewrite] is a pure function except for the keys that it generates. It returns the objects to install:
//
//	Deployment                          stays, annotated with the binary; ports and flags are those of the process
//	Services                            stay, but point to the ports of the process
//	clientConfig.service of webhooks,   becomes a URL on 127.0.0.1
//	conversions and ExtensionConfigs
//	Certificates                        become Secrets; their CA goes where cert-manager would inject it
//	Issuers                             are removed
//	all others                          stay unchanged
//
// Rewrite refuses what cannot work as a process and names the object.
package podless

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// BinaryAnnotation marks a Deployment that an embedded plane runs as a process. Its value is the path of the binary.
const BinaryAnnotation = "plane.capstan.dev/binary"

// Runners are the kinds that run containers.
var Runners = []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController",
	"StatefulSet"}

// Options configure how a provider runs.
type Options struct {
	// Binary is the absolute path of the program that runs in place of the container image. Required.
	Binary string
	// Taken are the ports of other processes on 127.0.0.1.
	Taken []int
}

// Rewrite returns the objects of a provider in the form to install, and the ports of its process on 127.0.0.1. It does
// not change the objects that it is given. The error lists everything that cannot work.
func Rewrite(objects []unstructured.Unstructured,
	o Options) (rewritten []unstructured.Unstructured, ports []int, err error) {
	r := rewriter{authorities: map[string][]byte{}, secrets: map[string]bool{}}
	var errs []error
	for i := range objects {
		errs = append(errs, r.sort(objects[i].DeepCopy()))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	if r.deployment == nil {
		return nil, nil, errors.New("it has no Deployment, so there is nothing to run: leave out its --provider-binary")
	}
	for _, c := range r.certificates {
		secret, err := r.certify(c)
		if err != nil {
			return nil, nil, err
		}
		r.kept = append(r.kept, secret)
	}
	p, err := newProgram(r.deployment)
	if err != nil {
		return nil, nil, err
	}
	p.choose(o.Taken)
	for _, object := range r.kept {
		errs = append(errs, r.redirect(object, p))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	p.infer(r.services, r.secrets)
	for _, service := range r.services {
		errs = append(errs, p.retarget(service))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	deployment, err := p.rewritten(o.Binary, r.secrets)
	if err != nil {
		return nil, nil, err
	}
	all := append(append(r.kept, r.services...), deployment)
	slices.SortStableFunc(all, order) // in a fixed order, certificates before the objects that need them
	for _, object := range all {
		rewritten = append(rewritten, *object)
	}
	return rewritten, slices.Sorted(maps.Values(p.ports)), nil
}

// rewriter holds the components, sorted by kind.
type rewriter struct {
	deployment   *unstructured.Unstructured
	services     []*unstructured.Unstructured
	certificates []*unstructured.Unstructured
	kept         []*unstructured.Unstructured
	// authorities holds the CAs created. Each has two keys: NAMESPACE/NAME of the Certificate, and
	// secret/NAMESPACE/NAME of its Secret.
	authorities map[string][]byte
	// secrets are the names of the Secrets created.
	secrets map[string]bool
}

// sort adds an object to the field for its kind, or refuses it.
func (r *rewriter) sort(o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	switch {
	case kind.Kind == "Deployment":
		if r.deployment != nil {
			return fmt.Errorf("it has more than one Deployment, %s and %s: one binary is one process",
				name(r.deployment), name(o))
		}
		r.deployment = o
	case slices.Contains(Runners, kind.Kind):
		return fmt.Errorf("%s %s would run containers, and only a Deployment can be a process", kind.Kind, name(o))
	case kind.Kind == "Service" && kind.Group == "":
		r.services = append(r.services, o)
	case kind.Group == "cert-manager.io" && kind.Kind == "Certificate":
		r.certificates = append(r.certificates, o)
	// the plane issues certificates instead
	case kind.Group == "cert-manager.io" && strings.HasSuffix(kind.Kind, "Issuer"):
	case kind.Group == "cert-manager.io":
		return fmt.Errorf("%s %s needs cert-manager", kind.Kind, name(o))
	case kind.Kind == "APIService":
		return fmt.Errorf("APIService %s needs a cluster network", name(o))
	default:
		r.kept = append(r.kept, o)
	}
	return nil
}

// order puts namespaces first, then Secrets, then definitions and most other objects, and last what depends on them:
// webhooks and the Deployment.
func order(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) }

func rank(o *unstructured.Unstructured) int {
	switch kind := o.GetKind(); {
	case kind == "Namespace":
		return 0
	case kind == "Secret":
		return 1
	case kind == "Deployment":
		return 3
	}
	return 2
}

// name returns NAMESPACE/NAME, or NAME for cluster-scoped objects.
func name(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}
