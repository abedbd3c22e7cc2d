package checks

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/schema"
	"github.com/capstan-dev/capstan/contract/source"
)

var variableOfClassChecks = []*check.Check{
	{
		ID: "class-variables", Level: check.Must, Contracts: contracts, Page: classPage + "#variable-types",
		Doc:   "Variables of a ClusterClass have schemas that Cluster API accepts, and defaults that fit these schemas.",
		Why:   "Cluster API's webhook refuses a class that breaks this rule.",
		Fix:   "Correct the schema or the default.",
		Rules: []string{"CC-08"}, Needs: []check.Need{check.Classes}, Run: classVariables,
	},
	{
		ID: "class-clusters", Level: check.Must, Contracts: contracts, Page: classPage + "#clusterclass-with-patches",
		Doc: "A Cluster with a ClusterClass names only worker classes that the ClusterClass has, and sets the " +
			"variables that the ClusterClass requires, with values that their schemas accept.",
		Why:   "Cluster API's webhook refuses a Cluster that breaks this rule.",
		Fix:   "Correct the name or the value, or set the variable.",
		Rules: []string{"CC-11"}, Needs: []check.Need{check.Classes, check.Templates}, Run: classClusters,
	},
}

// dotted returns a path in the usual dotted form.
func dotted(path []string) string {
	if len(path) == 0 {
		return "the whole"
	}
	return strings.Join(path, ".")
}

// schemaOf returns a schema for an object whose only field is the variable.
func schemaOf(variable node) (*schema.Schema, error) {
	data, err := json.Marshal(variable.get("schema", "openAPIV3Schema"))
	if err != nil {
		return nil, err
	}
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(data, &props); err != nil {
		return nil, err
	}
	return schema.New(&apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{variable.text("name"): props},
	}, false)
}

func classVariables(p *check.Pass) {
	for _, c := range classes(p) {
		for _, v := range c.variables() {
			name := v.text("name")
			s, err := schemaOf(v)
			if err != nil {
				p.Broken("CC-08", "", c.Object, v.at("schema"), "the schema of variable %s is refused: %v", name, err)
				continue
			}
			at := v.at("schema", "openAPIV3Schema", "default")
			if value := c.Get(at...); value != nil {
				for _, problem := range s.Judge(map[string]any{name: value}) {
					p.Broken("CC-08", "", c.Object, at, "the default of %s does not fit: %s", dotted(problem.Path),
						problem.Message)
				}
			}
		}
	}
}

// managed is a Cluster of a class.
type managed struct{ *source.Object }

// clustersOf returns the Clusters of a class in the cluster templates of a release and in the files the user passed in.
// It returns none if another class has the same name, for example because both names are the same variable: then a
// Cluster cannot be assigned to one of them.
func clustersOf(p *check.Pass, c class) []managed {
	var all []managed
	for _, other := range classes(p) {
		if other.Object != c.Object && other.Name() == c.Name() {
			return nil
		}
	}
	for _, f := range append(p.Release.Of(source.Template), p.Release.Of(source.Given)...) {
		for _, o := range objects(f, "Cluster") {
			if isCore(o.Group()) && o.ClassOf() == c.Name() {
				all = append(all, managed{o})
			}
		}
	}
	return all
}

// variables returns the variables that a Cluster sets, without those whose value comes from the user.
func (m managed) variables() values {
	all := values{}
	for _, v := range elements(m.Object, []string{"spec", "topology", "variables"}) {
		if text, isText := v.get("value").(string); !isText || !strings.Contains(text, "${") {
			all[v.text("name")] = v.get("value")
		}
	}
	return all
}

func classClusters(p *check.Pass) {
	for _, c := range classes(p) {
		for _, m := range clustersOf(p, c) {
			m.workers(p, c)
			m.values(p, c)
		}
	}
}

// workers checks the worker classes that a Cluster names.
func (m managed) workers(p *check.Pass, c class) {
	for _, list := range []string{"machineDeployments", "machinePools"} {
		var known []string
		for i := range c.List("spec", "workers", list) {
			known = append(known, c.Text("spec", "workers", list, strconv.Itoa(i), "class"))
		}
		for _, w := range elements(m.Object, []string{"spec", "topology", "workers", list}) {
			if name := w.text("class"); !strings.Contains(name, "${") && !slices.Contains(known, name) {
				p.Broken("CC-11", "", m.Object, w.at("class"), "class %s has no worker class %q", c.Name(), name)
			}
		}
	}
}

// values checks the variables that a Cluster sets.
func (m managed) values(p *check.Pass, c class) {
	set := map[string]node{}
	for _, v := range elements(m.Object, []string{"spec", "topology", "variables"}) {
		set[v.text("name")] = v
	}
	external := slices.ContainsFunc(c.patches(), func(n node) bool { return n.get("external") != nil })
	for _, v := range c.variables() {
		name := v.text("name")
		given, has := set[name]
		delete(set, name)
		if !has {
			if v.get("required") == true && v.get("schema", "openAPIV3Schema", "default") == nil {
				p.Broken("CC-11", "", m.Object, []string{"spec", "topology", "variables"}, "variable %s of class %s is not set",
					name, c.Name())
			}
			continue
		}
		s, err := schemaOf(v)
		if err != nil {
			continue // class-variables reports this
		}
		for _, problem := range s.Judge(map[string]any{name: given.get("value")}) {
			p.Broken("CC-11", "", m.Object, given.at("value"), "%s does not fit class %s: %s", dotted(problem.Path), c.Name(),
				problem.Message)
		}
	}
	for _, name := range sortedKeys(set) {
		if !external { // an extension may define variables as well
			p.Broken("CC-11", "", m.Object, set[name].at("name"), "class %s has no variable %q", c.Name(), name)
		}
	}
}
