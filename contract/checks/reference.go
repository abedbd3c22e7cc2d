package checks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// reference is a field that names another object.
type reference struct {
	object *source.Object
	path   []string
	kind   string
	name   string
}

func componentsReferences(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		for _, r := range references(f) {
			if r.name == "" || strings.Contains(r.name, "${") || isKnown(r) {
				continue
			}
			if !slices.ContainsFunc(objects(f, r.kind), func(o *source.Object) bool { return o.Name() == r.name }) {
				p.Broken("CT-36", "", r.object, r.path, "%s %q is not among the components", r.kind, r.name)
			}
		}
	}
}

// isKnown reports whether every cluster has the object.
func isKnown(r reference) bool {
	switch r.kind {
	case "ServiceAccount":
		return r.name == "default"
	case "ClusterRole":
		return slices.Contains([]string{"admin", "cluster-admin", "edit", "view"}, r.name) || strings.HasPrefix(r.name,
			"system:")
	case "Role":
		return r.name == "extension-apiserver-authentication-reader"
	}
	return false
}

// references returns the references of all objects in a file.
func references(f *source.File) []reference {
	var all []reference
	for _, o := range f.Objects {
		add := func(kind string, path ...string) {
			all = append(all, reference{o, path, kind, o.Text(path...)})
		}
		switch o.Kind() {
		case "Deployment":
			add("ServiceAccount", "spec", "template", "spec", "serviceAccountName")
		case "RoleBinding", "ClusterRoleBinding":
			if kind := o.Text("roleRef", "kind"); kind == "Role" || kind == "ClusterRole" {
				add(kind, "roleRef", "name")
			}
			for i := range o.List("subjects") {
				if o.Text("subjects", strconv.Itoa(i), "kind") == "ServiceAccount" {
					add("ServiceAccount", "subjects", strconv.Itoa(i), "name")
				}
			}
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			for i := range o.List("webhooks") {
				add("Service", "webhooks", strconv.Itoa(i), "clientConfig", "service", "name")
			}
		case "CustomResourceDefinition":
			add("Service", "spec", "conversion", "webhook", "clientConfig", "service", "name")
		case "Certificate":
			if kind := o.Text("spec", "issuerRef", "kind"); kind == "Issuer" {
				add(kind, "spec", "issuerRef", "name")
			}
		}
		all = append(all, injected(o)...)
	}
	return all
}

// injected returns the Certificate whose CA cert-manager injects into an object.
func injected(o *source.Object) []reference {
	const key = "cert-manager.io/inject-ca-from"
	path := []string{"metadata", "annotations", key}
	_, name, ok := strings.Cut(o.Text(path...), "/")
	if !ok {
		return nil
	}
	return []reference{{o, path, "Certificate", name}}
}
