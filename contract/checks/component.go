package checks

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

const componentsPage = clusterctlPage + "#components-yaml"

var componentChecks = []*check.Check{
	{
		ID: "components-namespace", Level: check.Must, Contracts: contracts, Page: clusterctlPage + "#target-namespace",
		Doc: "Components have at most one Namespace, and all namespaced objects are in it.",
		Why: "clusterctl puts all namespaced objects into one namespace, and stops with an error if there is a " +
			"second Namespace.",
		Fix:   "Keep one Namespace and put everything into it.",
		Rules: []string{"CT-45", "CT-47"}, Needs: []check.Need{check.Components}, Run: componentsNamespace,
	},
	{
		ID: "components-manager", Level: check.Must, Contracts: contracts,
		Page: clusterctlPage + "#controllers--watching-namespace",
		Doc:  "Controllers run from a Deployment, in a container named manager.",
		Why: "If a Deployment has no container named manager, clusterctl does not wait for the Deployment, and does not " +
			"change its arguments.",
		Fix:   "Use a Deployment, and give the container of the controllers the name manager.",
		Rules: []string{"CT-48", "CT-49"}, Needs: []check.Need{check.Components}, Run: componentsManager,
	},
	{
		ID: "components-all-namespaces", Level: check.Must, Contracts: contracts,
		Page: clusterctlPage + "#controllers--watching-namespace",
		Doc:  "The manager's arguments do not limit it to one namespace.",
		Why: "clusterctl installs one instance of the provider for all namespaces. If the manager is limited to one " +
			"namespace, clusters in other namespaces are ignored.",
		Fix:   "Remove the value of --namespace.",
		Rules: []string{"CT-51"}, Needs: []check.Need{check.Deployments}, Run: componentsAllNamespaces,
	},
	{
		ID: "components-references", Level: check.Must, Contracts: contracts, Page: componentsPage,
		Doc: "Accounts, roles, services and certificates that components refer to are among the components.",
		Why: "clusterctl installs only the components file. If an object is missing from this file, pods do not " +
			"start, or webhooks cannot be reached.",
		Fix:   "Add the object that the message names, or correct its name.",
		Rules: []string{"CT-36"}, Needs: []check.Need{check.Deployments}, Run: componentsReferences,
	},
	{
		ID: "variables", Level: check.Must, Contracts: contracts, Page: clusterctlPage + "#variables",
		Doc: "Variables follow the grammar of drone/envsubst, and no variable's name contains another variable.",
		Why: "If a variable has another form, clusterctl stops, or writes the variable itself into the object " +
			"instead of a value.",
		Fix:   "Write ${NAME} or ${NAME:=default}.",
		Rules: []string{"CT-56"}, Needs: []check.Need{check.Components}, Run: variableGrammar,
	},
	{
		ID: "components-images", Level: check.Should, Contracts: contracts, Page: componentsPage,
		Doc: "Images have a registry and a version.",
		Why: "Without a registry, each machine pulls from the registry that it is configured for. With the tag latest, " +
			"the image can change under a running provider.",
		Fix:   "Write registry/repository/name:version, or a digest.",
		Rules: []string{"CT-52"}, Needs: []check.Need{check.Deployments, check.Directory}, Run: componentsImages,
	},
	{
		ID: "components-provider-label", Level: check.Should, Contracts: contracts, Page: clusterctlPage + "#labels",
		Doc: "Each object of components has the label of its provider.",
		Why: "Without the label, clusterctl cannot take over what was installed with kubectl.",
		Fix: "Set the label cluster.x-k8s.io/provider on all objects. To do this with kustomize, add the label to the " +
			"labels list in kustomization.yaml.",
		Rules: []string{"CT-60"}, Needs: []check.Need{check.Deployments}, Run: componentsProviderLabel,
	},
}

func componentsNamespace(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		namespaces := objects(f, "Namespace")
		if len(namespaces) > 1 {
			p.Broken("CT-45", "", namespaces[1], []string{"metadata", "name"}, "this is Namespace number 2 of %d",
				len(namespaces))
		}
		if len(namespaces) != 1 {
			continue
		}
		for _, o := range f.Objects {
			got := o.Namespace()
			if got != "" && got != namespaces[0].Name() && !leadsElsewhere(o) {
				p.Broken("CT-47", "", o, []string{"metadata", "namespace"},
					"the object is in namespace %q, but the Namespace of the components is %q",
					got, namespaces[0].Name())
			}
		}
	}
}

// leadsElsewhere reports whether an object is a RoleBinding in kube-system, which binds to a role there.
func leadsElsewhere(o *source.Object) bool {
	return o.Kind() == "RoleBinding" && o.Namespace() == "kube-system"
}

func componentsManager(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		isManager := func(c container) bool { return c.name == "manager" }
		for _, kind := range []string{"StatefulSet", "DaemonSet", "Pod"} {
			for _, o := range objects(f, kind) {
				if slices.ContainsFunc(containers(o), isManager) {
					p.Broken("CT-48", "", o, []string{"kind"}, "the manager runs from a %s", kind)
				}
			}
		}
		deployments := objects(f, "Deployment")
		if len(deployments) > 0 && !slices.ContainsFunc(deployments, func(o *source.Object) bool {
			return slices.ContainsFunc(containers(o), isManager)
		}) {
			p.Broken("CT-49", "", deployments[0], podPath(deployments[0], "containers"),
				"no Deployment has a container named manager")
		}
	}
}

// podPath returns the path of a field of the pods that an object runs.
func podPath(o *source.Object, names ...string) []string {
	path := []string{"spec"}
	if o.Kind() != "Pod" {
		path = []string{"spec", "template", "spec"}
	}
	return append(path, names...)
}

// container is one container of an object that runs pods.
type container struct {
	object *source.Object
	path   []string
	name   string
}

// containers returns the containers of an object that runs pods.
func containers(o *source.Object) []container {
	var all []container
	for i := range o.List(podPath(o, "containers")...) {
		path := podPath(o, "containers", strconv.Itoa(i))
		all = append(all, container{o, path, o.Text(append(slices.Clone(path), "name")...)})
	}
	return all
}

// at returns the path of a field of the container.
func (c container) at(names ...string) []string { return append(slices.Clone(c.path), names...) }

// deployed returns the containers of all Deployments in components.
func deployed(p *check.Pass) []container {
	var all []container
	for _, f := range p.Release.Of(source.Components) {
		for _, o := range objects(f, "Deployment") {
			all = append(all, containers(o)...)
		}
	}
	return all
}

func componentsAllNamespaces(p *check.Pass) {
	for _, c := range deployed(p) {
		args := texts(c.object.Get(c.at("args")...))
		for i, arg := range args {
			value, ok := strings.CutPrefix(arg, "--namespace=")
			if arg == "--namespace" && i+1 < len(args) {
				value, ok = args[i+1], true
			}
			// A value filled in at installation is not fixed.
			if ok && strings.Trim(value, `"'`) != "" && !strings.Contains(value, "$") && c.name == "manager" {
				p.Broken("CT-51", "", c.object, c.at("args", strconv.Itoa(i)), "the manager watches namespace %s only",
					value)
			}
		}
	}
}

func variableGrammar(p *check.Pass) {
	for _, role := range []source.Role{source.Components, source.Template} {
		for _, f := range p.Release.Of(role) {
			for _, v := range f.Variables {
				if v.Problem != "" {
					p.BrokenAt("CT-56", v.At, "%s: %s", v.Text, v.Problem)
				}
			}
		}
	}
}

var imageVersion = regexp.MustCompile(`(:[\w][\w.-]*|@sha256:[0-9a-f]{64})$`)

func componentsImages(p *check.Pass) {
	for _, c := range deployed(p) {
		image := c.object.Text(c.at("image")...)
		host, _, below := strings.Cut(image, "/")
		version := imageVersion.FindString(image)
		switch {
		case strings.Contains(image, "${"):
		case !below || !strings.ContainsAny(host, ".:") && host != "localhost":
			p.Broken("CT-52", "", c.object, c.at("image"), "the image %q has no registry", image)
		case version == "" || version == ":latest":
			p.Broken("CT-52", "", c.object, c.at("image"), "the image %q has no version", image)
		}
	}
}

func componentsProviderLabel(p *check.Pass) {
	const key = "cluster.x-k8s.io/provider"
	for _, f := range p.Release.Of(source.Components) {
		var without []*source.Object
		for _, o := range f.Objects {
			if o.Label(key) == "" {
				without = append(without, o)
			}
		}
		if len(without) > 0 {
			p.Broken("CT-60", "", without[0], []string{"metadata", "labels"},
				"%d of %d objects have no label %s; this is the first",
				len(without), len(f.Objects), key)
		}
	}
}
