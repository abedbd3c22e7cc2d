package checks

import (
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// classPage is where the book describes ClusterClasses.
const classPage = "https://cluster-api.sigs.k8s.io/tasks/experimental-features/cluster-class/write-clusterclass"

var classChecks = []*check.Check{
	{
		ID: "class-references", Level: check.Must, Contracts: contracts, Page: classPage + "#basic-clusterclass",
		Doc: "A ClusterClass refers only to templates, and each reference has a kind, a name and an API version. Each " +
			"worker class has a unique name.",
		Why:   "Cluster API's webhook refuses a class that breaks these rules.",
		Fix:   "Refer to a kind that ends in Template, and give each worker class a unique name.",
		Rules: []string{"CC-01", "CC-02"}, Needs: []check.Need{check.Classes}, Run: classReferences,
	},
	{
		ID: "class-patches", Level: check.Must, Contracts: contracts, Page: classPage + "#clusterclass-with-patches",
		Doc: "Patches of a ClusterClass have the form that Cluster API's book requires, and select templates of the " +
			"class.",
		Why:   "If a patch breaks these rules, Cluster API's webhook refuses the class, or the patch changes nothing.",
		Fix:   "Correct what the message names.",
		Rules: []string{"CC-03", "CC-04", "CC-05"}, Needs: []check.Need{check.Classes}, Run: classPatches,
	},
}

// class is a ClusterClass with its template slots.
type class struct {
	*source.Object
	slots []slot
}

// slot is a place in a ClusterClass that refers to a template.
type slot struct {
	// place is the name that matchResources uses: infrastructureCluster, controlPlane, machineDeploymentClass or
	// machinePoolClass; worker is the class of workers.
	place, worker string
	path          []string
	apiVersion    string
	kind          string
	name          string
}

// classes returns the ClusterClasses in class and template files.
func classes(p *check.Pass) []class {
	var all []class
	for _, f := range slices.Concat(p.Release.Of(source.Class), p.Release.Of(source.Template)) {
		for _, o := range objects(f, "ClusterClass") {
			if o.Group() == "cluster.x-k8s.io" {
				all = append(all, class{o, slotsOf(o)})
			}
		}
	}
	return all
}

// slotsOf returns the template slots of a class in v1beta2 or v1beta1 form.
func slotsOf(o *source.Object) []slot {
	var all []slot
	add := func(place, worker string, path ...string) {
		for _, field := range []string{"templateRef", "ref"} {
			at := append(slices.Clone(path), field)
			if _, ok := o.Get(at...).(map[string]any); ok {
				get := func(name string) string { return o.Text(append(slices.Clone(at), name)...) }
				all = append(all, slot{place, worker, at, get("apiVersion"), get("kind"), get("name")})
			}
		}
	}
	add("infrastructureCluster", "", "spec", "infrastructure")
	add("controlPlane", "", "spec", "controlPlane")
	add("controlPlane", "", "spec", "controlPlane", "machineInfrastructure")
	for list, place := range map[string]string{
		"machineDeployments": "machineDeploymentClass", "machinePools": "machinePoolClass",
	} {
		for i := range o.List("spec", "workers", list) {
			at := []string{"spec", "workers", list, strconv.Itoa(i)}
			worker := o.Text(append(slices.Clone(at), "class")...)
			for _, part := range []string{"bootstrap", "infrastructure"} {
				add(place, worker, append(slices.Clone(at), part)...)
				add(place, worker, append(slices.Clone(at), "template", part)...)
			}
		}
	}
	return all
}

func classReferences(p *check.Pass) {
	for _, c := range classes(p) {
		for _, s := range c.slots {
			if s.name == "" || s.apiVersion == "" || !strings.HasSuffix(s.kind, "Template") || s.kind == "Template" {
				p.Broken("CC-01", "", c.Object, s.path, "%q, %q and %q are not the API version, kind and name of a template",
					s.apiVersion, s.kind, s.name)
			}
		}
		for _, list := range []string{"machineDeployments", "machinePools"} {
			var seen []string
			for i := range c.List("spec", "workers", list) {
				at := []string{"spec", "workers", list, strconv.Itoa(i), "class"}
				name := c.Text(at...)
				if name == "" || slices.Contains(seen, name) {
					p.Broken("CC-02", "", c.Object, at, "the class name %q is empty or occurs twice", name)
				}
				seen = append(seen, name)
			}
		}
	}
}

func classPatches(p *check.Pass) {
	for _, c := range classes(p) {
		var seen []string
		for _, patch := range c.patches() {
			name := patch.text("name")
			if name == "" || slices.Contains(seen, name) {
				p.Broken("CC-03", "", c.Object, patch.at("name"), "the patch name %q is empty or occurs twice", name)
			}
			seen = append(seen, name)
			definitions := patch.definitions()
			if (len(definitions) > 0) == (patch.get("external") != nil) {
				p.Broken("CC-03", "", c.Object, patch.path, "the patch %s needs either definitions or external", name)
			}
			for _, d := range definitions {
				if why := c.selects(d); why != "" {
					p.Broken("CC-04", "", c.Object, d.at("selector"), "the selector of patch %s %s", name, why)
				}
				for _, j := range d.list("jsonPatches") {
					if why := wrongJSONPatch(j); why != "" {
						p.Broken("CC-05", "", c.Object, j.path, "the JSON patch of patch %s %s", name, why)
					}
				}
			}
		}
	}
}

// node is a part of an object.
type node struct {
	object *source.Object
	path   []string
}

func (n node) at(names ...string) []string { return append(slices.Clone(n.path), names...) }
func (n node) get(names ...string) any     { return n.object.Get(n.at(names...)...) }
func (n node) text(names ...string) string { return n.object.Text(n.at(names...)...) }
func (n node) list(names ...string) []node { return elements(n.object, n.at(names...)) }
func (n node) definitions() []node         { return n.list("definitions") }
func (c class) patches() []node            { return elements(c.Object, []string{"spec", "patches"}) }
func (c class) variables() []node          { return elements(c.Object, []string{"spec", "variables"}) }
func elements(o *source.Object, path []string) []node {
	var all []node
	for i := range o.List(path...) {
		all = append(all, node{o, append(slices.Clone(path), strconv.Itoa(i))})
	}
	return all
}

// selects says why the selector of a definition selects no template of the class. It returns "" if the selector selects
// one.
func (c class) selects(d node) string {
	matches := node{d.object, d.at("selector", "matchResources")}
	enabled := false
	for _, place := range []string{"infrastructureCluster", "controlPlane", "machineDeploymentClass", "machinePoolClass"} {
		names := texts(matches.get(place, "names"))
		if matches.get(place) != true && len(names) == 0 {
			continue
		}
		enabled = true
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, name := range names {
			if !slices.ContainsFunc(c.slots, func(s slot) bool {
				return s.place == place && isWorker(name, s.worker) && s.isSelected(d)
			}) {
				return "matches no template of " + strings.TrimSpace(place+" "+strings.TrimPrefix(name, "*"))
			}
		}
	}
	if !enabled {
		return "selects nothing in matchResources"
	}
	return ""
}

// isSelected reports whether a selector names the kind and API version of the template.
func (s slot) isSelected(d node) bool {
	return d.text("selector", "kind") == s.kind && d.text("selector", "apiVersion") == s.apiVersion
}

// isWorker reports whether a name in a selector, which may have a star at one end, matches a class of workers.
func isWorker(name, worker string) bool {
	before, hasStar := strings.CutSuffix(name, "*")
	after, leads := strings.CutPrefix(name, "*")
	return name == worker || hasStar && strings.HasPrefix(worker, before) || leads && strings.HasSuffix(worker, after)
}

// wrongJSONPatch says what is wrong with the form of a JSON patch. It returns "" if nothing is.
func wrongJSONPatch(j node) string {
	op, path := j.text("op"), j.text("path")
	if !slices.Contains([]string{"add", "replace", "remove"}, op) {
		return "has op " + strconv.Quote(op) + ", which is not add, replace or remove"
	}
	if path != "/spec" && !strings.HasPrefix(path, "/spec/") {
		return "has a path outside of /spec: " + path
	}
	for step := range strings.SplitSeq(path, "/") {
		if index, err := strconv.Atoi(step); err == nil && (op != "add" || index != 0) {
			return "changes an element of a list, where only adding to its ends is possible: " + path
		}
	}
	if op == "remove" {
		return ""
	}
	fields, _ := j.get().(map[string]any)
	_, hasValue := fields["value"]
	variable, template := j.text("valueFrom", "variable"), j.text("valueFrom", "template")
	switch {
	case hasValue == (fields["valueFrom"] != nil):
		return "needs either a value or valueFrom"
	case !hasValue && (variable == "") == (template == ""):
		return "needs either a variable or a template in valueFrom"
	}
	return ""
}
