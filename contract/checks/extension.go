package checks

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// caAnnotation is the annotation by which core injects the CA of an ExtensionConfig.
const caAnnotation = "runtime.cluster.x-k8s.io/inject-ca-from-secret"

var extensionChecks = []*check.Check{
	{
		ID: "extension-config", Level: check.Must, Contracts: contracts,
		Page: "https://cluster-api.sigs.k8s.io/tasks/experimental-features/runtime-sdk/deploy-runtime-extension",
		Doc: "An ExtensionConfig in components refers to a Service among the components, and says with which CA core " +
			"verifies the server.",
		Why: "If core cannot reach the extension, the extension's hooks fail, and clusters stop at these hooks.",
		Fix: "Name a Service of the components. Set caBundle, or set the annotation " + caAnnotation +
			" to the NAMESPACE/NAME of a Secret with the CA.",
		Rules: []string{"RV-19"}, Needs: []check.Need{check.Components}, Run: extensionConfigs,
	},
	{
		ID: "leader-election", Level: check.Should, Contracts: contracts, Page: componentsPage,
		Doc:   "A manager that runs as several replicas elects a leader.",
		Why:   "Without an election, all replicas reconcile the same objects, and machines are created twice.",
		Fix:   "Add --leader-elect to the arguments of the manager.",
		Rules: []string{"RV-20"}, Needs: []check.Need{check.Deployments}, Run: leaderElection,
	},
}

func extensionConfigs(p *check.Pass) {
	for _, f := range p.Release.Of(source.Components) {
		for _, o := range objects(f, "ExtensionConfig") {
			name := o.Text("spec", "clientConfig", "service", "name")
			isNamed := func(s *source.Object) bool { return s.Name() == name }
			if name != "" && !slices.ContainsFunc(objects(f, "Service"), isNamed) {
				p.Broken("RV-19", "", o, []string{"spec", "clientConfig", "service", "name"},
					"the Service %q is not among the components", name)
			}
			secret := o.Text("metadata", "annotations", caAnnotation)
			switch {
			case secret == "" && o.Text("spec", "clientConfig", "caBundle") == "":
				p.Broken("RV-19", "", o, []string{"spec", "clientConfig"},
					"there is neither a caBundle nor the annotation that injects one")
			case secret != "" && strings.Count(secret, "/") != 1:
				p.Broken("RV-19", "", o, []string{"metadata", "annotations", caAnnotation},
					"%q is not the NAMESPACE/NAME of a Secret", secret)
			}
		}
	}
}

func leaderElection(p *check.Pass) {
	if p.Release.Type() == source.Extension {
		return // all of its replicas answer calls
	}
	for _, c := range deployed(p) {
		replicas, _ := c.object.Get("spec", "replicas").(int64)
		args := texts(c.object.Get(c.at("args")...))
		elects := slices.ContainsFunc(args, func(arg string) bool {
			return strings.Contains(arg, "leader-elect") && !strings.HasSuffix(arg, "=false")
		})
		if c.name == "manager" && replicas > 1 && len(args) > 0 && !elects {
			p.Broken("RV-20", "", c.object, c.at("args"), "%d replicas run, and none of the arguments elects a leader",
				replicas)
		}
	}
}
