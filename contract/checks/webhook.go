package checks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// webhookPage is where Kubernetes describes webhooks.
const webhookPage = "https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/"

var webhookChecks = []*check.Check{
	{
		ID: "webhook-port", Level: check.Must, Contracts: contracts, Page: webhookPage,
		Doc: "The Service of each webhook has the webhook's port, and that port leads to a port of the Pods.",
		Why: "If the port is wrong, the API server cannot reach the webhook, so objects of the provider cannot be " +
			"written or converted.",
		Fix:   "Use port 443 with targetPort webhook-server, and a container port of that name.",
		Rules: []string{"RV-11"}, Needs: []check.Need{check.Deployments}, Run: webhookPorts,
	},
	{
		ID: "webhook-form", Level: check.Must, Contracts: contracts, Page: webhookPage,
		Doc: "Each webhook has a path, a unique DNS name of at least three labels, and no side effects.",
		Why: "If a webhook breaks these rules, the API server refuses the configuration, or it refuses every dry " +
			"run, so that the topology controller cannot plan.",
		Fix:   "Correct the field that the message names; webhooks that write nothing have sideEffects: None.",
		Rules: []string{"RV-12", "RV-14"}, Needs: []check.Need{check.Components}, Run: webhookForm,
	},
	{
		ID: "webhook-fails-closed", Fixes: true, Level: check.Should, Contracts: contracts, Page: webhookPage,
		Doc: "Webhooks for the provider's resources have failure policy Fail.",
		Why: "With the failure policy Ignore, objects that nobody has checked or defaulted are stored while the " +
			"webhook cannot be reached.",
		Fix:   "Set failurePolicy: Fail.",
		Rules: []string{"RV-13"}, Needs: []check.Need{check.Components}, Run: webhookFailsClosed,
	},
}

// webhook is one entry of a webhook configuration.
type webhook struct {
	object *source.Object
	path   []string
}

// get returns the value of a field.
func (w webhook) get(names ...string) any { return w.object.Get(w.at(names...)...) }

// at returns the path of a field.
func (w webhook) at(names ...string) []string { return append(slices.Clone(w.path), names...) }

// webhooks returns the admission webhooks in a file.
func webhooks(f *source.File) []webhook {
	var all []webhook
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		for _, o := range objects(f, kind) {
			for i := range o.List("webhooks") {
				all = append(all, webhook{o, []string{"webhooks", strconv.Itoa(i)}})
			}
		}
	}
	return all
}

func webhookPorts(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		all := webhooks(f)
		for _, o := range objects(f, "CustomResourceDefinition") {
			all = append(all, webhook{o, []string{"spec", "conversion", "webhook"}})
		}
		for _, w := range all {
			name, _ := w.get("clientConfig", "service", "name").(string)
			for _, service := range objects(f, "Service") {
				if name != "" && service.Name() == name {
					webhookPort(p, f, w, service)
				}
			}
		}
	}
}

// webhookPort follows a webhook through its Service to the Pods and checks the ports.
func webhookPort(p *check.Pass, f *source.File, w webhook, service *source.Object) {
	port, ok := w.get("clientConfig", "service", "port").(int64)
	if !ok {
		port = 443
	}
	for i, entry := range service.List("spec", "ports") {
		fields, _ := entry.(map[string]any)
		if fields["port"] != port {
			continue
		}
		path := []string{"spec", "ports", strconv.Itoa(i), "targetPort"}
		name, isName := fields["targetPort"].(string)
		if isName && !strings.Contains(name, "$") && !hasPort(f, service, name) {
			p.Broken("RV-11", "", service, path, "targetPort %q is not the name of a port of the Pods", name)
		}
		return
	}
	p.Broken("RV-11", "", w.object, w.at("clientConfig", "service"), "the Service %s has no port %d", service.Name(),
		port)
}

// hasPort reports whether the Pods that a Service selects have a port of that name. It returns true if there are no
// such Pods.
func hasPort(f *source.File, service *source.Object, name string) bool {
	selector, _ := service.Get("spec", "selector").(map[string]any)
	selected := false
	for _, o := range objects(f, "Deployment") {
		labels, _ := o.Get("spec", "template", "metadata", "labels").(map[string]any)
		matches := len(selector) > 0
		for key, value := range selector {
			matches = matches && labels[key] == value
		}
		if !matches {
			continue
		}
		selected = true
		for _, c := range containers(o) {
			for i := range o.List(c.at("ports")...) {
				if o.Text(c.at("ports", strconv.Itoa(i), "name")...) == name {
					return true
				}
			}
		}
	}
	return !selected
}

func webhookForm(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		seen := map[*source.Object][]string{}
		for _, w := range webhooks(f) {
			name, _ := w.get("name").(string)
			switch {
			case slices.Contains(seen[w.object], name):
				p.Broken("RV-12", "", w.object, w.at("name"), "two webhooks have the name %q", name)
			case strings.Count(name, ".") < 2 && !strings.Contains(name, "$"):
				p.Broken("RV-12", "", w.object, w.at("name"), "the name %q does not have three labels", name)
			}
			seen[w.object] = append(seen[w.object], name)
			if path, ok := w.get("clientConfig", "service", "path").(string); ok && !strings.HasPrefix(path, "/") {
				p.Broken("RV-12", "", w.object, w.at("clientConfig", "service", "path"), "the path %q does not begin with /", path)
			}
			if effects, _ := w.get("sideEffects").(string); effects != "None" && effects != "NoneOnDryRun" {
				p.Broken("RV-14", "", w.object, w.at("sideEffects"), "sideEffects is %q: dry runs are refused", effects)
			}
		}
	}
}

func webhookFailsClosed(p *check.Pass) {
	groups := map[string]bool{}
	for _, d := range p.Definitions() {
		groups[d.CRD.Spec.Group] = true
	}
	for _, f := range p.Release.Of(source.Components) {
		for _, w := range webhooks(f) {
			rules, _ := w.get("rules").([]any)
			ours := slices.ContainsFunc(rules, func(rule any) bool {
				fields, _ := rule.(map[string]any)
				return slices.ContainsFunc(texts(fields["apiGroups"]), func(group string) bool { return groups[group] })
			})
			if policy, _ := w.get("failurePolicy").(string); ours && policy == "Ignore" {
				p.Broken("RV-13", "", w.object, w.at("failurePolicy"), "failurePolicy is Ignore")
				p.Replace(w.object, w.at("failurePolicy"), "Fail")
			}
		}
	}
}
