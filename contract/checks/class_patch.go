package checks

import (
	"maps"
	"slices"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/schema"
	"github.com/capstan-dev/capstan/contract/source"
)

var patchChecks = []*check.Check{
	{
		ID: "class-templates", Level: check.Must, Contracts: contracts, Page: classPage + "#clusterclass-with-patches",
		Doc: "The Go templates and the conditions (enabledIf) of patches can be parsed, and use only variables that " +
			"the class defines or that are built in.",
		Why: "If a patch breaks these rules, Cluster API's webhook refuses the class, or the topology controller " +
			"cannot plan any cluster of the class.",
		Fix:   "Define the variable, or correct its name; use only functions of sprig that have no side effects.",
		Rules: []string{"CC-06", "CC-07"}, Needs: []check.Need{check.Classes}, Run: classTemplates,
	},
	{
		ID: "class-patched", Level: check.Must, Contracts: contracts, Page: classPage + "#clusterclass-with-patches",
		Doc: "After the patches have changed a template, the template still fits its definition, both with the defaults of " +
			"the variables and with the values from the Clusters in the release.",
		Why: "If a template no longer fits, the API server refuses the object that the topology controller creates, " +
			"and the cluster hangs.",
		Fix:   "Correct the path or the value of the patch, or the default of its variable.",
		Rules: []string{"CC-09"}, Needs: []check.Need{check.Classes, check.Definitions}, Run: classPatched,
	},
	{
		ID: "workload-schema", Level: check.Must, Contracts: contracts, Page: clusterctlPage + "#workload-cluster-templates",
		Doc: "Objects of cluster templates and ClusterClasses fit the definitions of the release.",
		Why: "If an object does not fit its definition, the API server refuses the object, or silently drops the " +
			"field that does not fit.",
		Fix:   "Correct the field that the message names.",
		Rules: []string{"CC-10"}, Needs: []check.Need{check.Components, check.Definitions}, Run: workloadSchema,
	},
}

func classTemplates(p *check.Pass) {
	for _, c := range classes(p) {
		defined := []string{"builtin"}
		for _, v := range c.variables() {
			defined = append(defined, v.text("name"))
		}
		look := func(at []string, text string) {
			if _, err := parseTemplate(text); err != nil {
				p.Broken("CC-07", "", c.Object, at, "the template cannot be parsed: %v", err)
			}
			for _, name := range used(text) {
				if !slices.Contains(defined, rootOf(name)) {
					p.Broken("CC-06", "", c.Object, at, "the variable %s is not defined", name)
				}
			}
		}
		for _, patch := range c.patches() {
			look(patch.at("enabledIf"), patch.text("enabledIf"))
			for _, d := range patch.definitions() {
				for _, j := range d.list("jsonPatches") {
					look(j.at("valueFrom", "template"), j.text("valueFrom", "template"))
					name := j.text("valueFrom", "variable")
					if name != "" && !slices.Contains(defined, rootOf(name)) {
						p.Broken("CC-06", "", c.Object, j.at("valueFrom", "variable"), "the variable %s is not defined", name)
					}
				}
			}
		}
	}
}

// defaults returns the default values of a class's variables.
func (c class) defaults() values {
	all := values{}
	for _, v := range c.variables() {
		if value := v.get("schema", "openAPIV3Schema", "default"); value != nil {
			all[v.text("name")] = value
		}
	}
	return all
}

// given returns the sets of variables to try patches with: the defaults, and what each Cluster of the class in the
// release sets.
func (c class) given(p *check.Pass) []values {
	all := []values{c.defaults()}
	for _, cluster := range clustersOf(p, c) {
		set := c.defaults()
		maps.Copy(set, cluster.variables())
		all = append(all, set)
	}
	return all
}

func classPatched(p *check.Pass) {
	judges := newJudges(p)
	for _, c := range classes(p) {
		if slices.ContainsFunc(c.patches(), func(n node) bool { return n.get("external") != nil }) {
			continue // only a running extension shows its patches
		}
		for _, set := range c.given(p) {
			for _, s := range c.slots {
				set["builtin"] = builtins(s)
				patched(p, judges, c, s, set)
			}
		}
	}
}

// patched checks one template with all patches of a class applied.
func patched(p *check.Pass, judges *judges, c class, s slot, set values) {
	template := find(c.File, s.kind, s.name)
	if template == nil {
		return // template-references reports this
	}
	object, last := template.Value, node{c.Object, s.path}
	for _, patch := range c.patches() {
		if !enabled(set, patch.text("enabledIf")) {
			continue
		}
		for _, d := range patch.definitions() {
			if !s.isSelected(d) || !s.isMatched(d) {
				continue
			}
			changed, known, err := set.apply(object, d.list("jsonPatches"))
			if err != nil {
				p.Broken("CC-09", "", c.Object, d.path, "patch %s of %s fails: %v", patch.text("name"), s.kind, err)
				return
			}
			if !known {
				return // a variable that the user has to set
			}
			object, last = changed, d
		}
	}
	for _, problem := range judges.judge(object) {
		p.Broken("CC-09", "", c.Object, last.path, "%s %s with its patches does not fit: %s: %s", s.kind, s.name,
			dotted(problem.Path), problem.Message)
	}
}

// isMatched reports whether the matchResources of a definition matches the slot.
func (s slot) isMatched(d node) bool {
	matches := node{d.object, d.at("selector", "matchResources", s.place)}
	if matches.get() == true {
		return true
	}
	return slices.ContainsFunc(texts(matches.get("names")), func(name string) bool { return isWorker(name, s.worker) })
}

// enabled reports whether a patch applies with these variables. A condition that cannot be evaluated counts as false.
func enabled(set values, condition string) bool {
	if condition == "" {
		return true
	}
	for _, name := range used(condition) {
		if _, ok := set[rootOf(name)]; !ok {
			return false
		}
	}
	value, err := set.render(condition)
	return err == nil && value == true
}

// find returns the object of a kind and name in a file, or nil.
func find(f *source.File, kind, name string) *source.Object {
	for _, o := range objects(f, kind) {
		if o.Name() == name {
			return o
		}
	}
	return nil
}

func workloadSchema(p *check.Pass) {
	judges := newJudges(p)
	for _, f := range slices.Concat(p.Release.Of(source.Template), p.Release.Of(source.Class)) {
		var selected []string
		for _, o := range objects(f, "ClusterClass") {
			for _, s := range slotsOf(o) {
				selected = append(selected, s.kind+" "+s.name) // class-patched checks them
			}
		}
		for _, o := range f.Objects {
			if slices.Contains(selected, o.String()) {
				continue
			}
			for _, problem := range judges.judge(o.Value) {
				p.Broken("CC-10", "", o, problem.Path, "%s of %s does not fit the definition: %s", dotted(problem.Path),
					o.Kind(), problem.Message)
			}
		}
	}
}

// judges are the schemas of a release's definitions, prepared on first use.
type judges struct {
	definitions []*source.Definition
	ready       map[string]*schema.Schema
}

func newJudges(p *check.Pass) *judges {
	return &judges{p.Definitions(), map[string]*schema.Schema{}}
}

// judge returns what the object's definition rejects. Without a definition it returns nothing.
func (j *judges) judge(value map[string]any) []schema.Problem {
	o := &source.Object{Value: value}
	for _, d := range j.definitions {
		if d.CRD.Spec.Group != o.Group() || d.CRD.Spec.Names.Kind != o.Kind() {
			continue
		}
		key := d.Name() + " " + o.Version()
		if _, known := j.ready[key]; !known {
			j.ready[key] = nil
			if found, ok := d.Schema(o.Version()); ok {
				// definition-accepted reports a schema that cannot be prepared.
				j.ready[key], _ = schema.New(found.JSONSchemaProps, true)
			}
		}
		switch {
		case j.ready[key] != nil:
			return j.ready[key].Judge(value)
		case !isServed(d, o.Version()):
			return []schema.Problem{{Path: []string{"apiVersion"}, Message: "the version is not served"}}
		}
	}
	return nil
}
