package checks

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

const variablePage = clusterctlPage + "#variables"

var variableChecks = []*check.Check{
	{
		ID: "variables-blanks", Level: check.Should, Contracts: []string{v1beta1}, Page: variablePage,
		Doc:   "There are no blanks inside the braces of a variable.",
		Why:   "Contract v1beta1 deprecates blanks inside the braces, and tools other than clusterctl do not support them.",
		Fix:   "Write ${NAME}.",
		Rules: []string{"CT-55"}, Needs: []check.Need{check.Components}, Run: variableBlanks,
	},
	{
		ID: "variables-text", Fixes: true, Level: check.Must, Contracts: contracts, Page: variablePage,
		Doc:   "A text value is still text after clusterctl has replaced variables.",
		Why:   "If a value that must be text looks like a number or a boolean, the API server refuses the object.",
		Fix:   "Put the whole value in quotes: \"${NAME:=true}\".",
		Rules: []string{"RV-17"}, Needs: []check.Need{check.Components}, Run: variableText,
	},
	{
		ID: "variables-left", Level: check.Must, Contracts: contracts, Page: variablePage,
		Doc: "After clusterctl has replaced the variables, no value contains the syntax of a variable.",
		Why: "clusterctl replaces only variables in braces. Text such as $NAME:=default stays in the object, and " +
			"the controller then uses this text as the value.",
		Fix:   "Write ${NAME} or ${NAME:=default}, with braces.",
		Rules: []string{"RV-18"}, Needs: []check.Need{check.Components}, Run: variableLeft,
	},
}

// replaced are the files in which clusterctl replaces variables.
func replaced(p *check.Pass) []*source.File {
	return slices.Concat(p.Release.Of(source.Components), p.Release.Of(source.Template))
}

func variableBlanks(p *check.Pass) {
	for _, f := range replaced(p) {
		for _, v := range f.Variables {
			if v.Blanks && v.Problem == "" {
				p.BrokenAt("CT-55", v.At, "%s has blanks", v.Text)
			}
		}
	}
}

func variableText(p *check.Pass) {
	for _, f := range replaced(p) {
		for _, o := range f.Objects {
			for _, field := range []string{"labels", "annotations"} {
				values, _ := o.Get("metadata", field).(map[string]any)
				for _, key := range sortedKeys(values) {
					isText(p, o, []string{"metadata", field, key})
				}
			}
			switch o.Kind() {
			case "Deployment", "StatefulSet", "DaemonSet", "Pod":
				for _, c := range containers(o) {
					for i := range o.List(c.at("args")...) {
						isText(p, o, c.at("args", strconv.Itoa(i)))
					}
					for i := range o.List(c.at("env")...) {
						isText(p, o, c.at("env", strconv.Itoa(i), "value"))
					}
				}
			case "ConfigMap", "Secret":
				for _, field := range []string{"data", "stringData"} {
					values, _ := o.Get(field).(map[string]any)
					for _, key := range sortedKeys(values) {
						isText(p, o, []string{field, key})
					}
				}
			}
		}
	}
}

// isText reports a value that exists and is not a string.
func isText(p *check.Pass, o *source.Object, path []string) {
	switch value := o.Get(path...).(type) {
	case bool, int64, float64:
		p.Broken("RV-17", "", o, path, "the value %v is not text", value)
		p.Replace(o, path, strconv.Quote(fmt.Sprint(value)))
	}
}

// leftOver matches the start of a variable with a default that was written without braces.
var leftOver = regexp.MustCompile(`\$[A-Z][A-Z0-9_]*(:=|:-)`)

func variableLeft(p *check.Pass) {
	for _, f := range replaced(p) {
		for _, o := range f.Objects {
			eachText(o.Value, nil, func(path []string, value string) {
				if left := leftOver.FindString(value); left != "" {
					p.Broken("RV-18", "", o, path, "the value contains %q, which clusterctl does not replace", left)
				}
			})
		}
	}
}

// eachText calls the function look with each string in a value. It skips scripts of several lines, which have variables
// of their own.
func eachText(value any, path []string, look func(path []string, value string)) {
	switch v := value.(type) {
	case string:
		if !strings.Contains(v, "\n") {
			look(path, v)
		}
	case []any:
		for i, element := range v {
			eachText(element, append(slices.Clone(path), strconv.Itoa(i)), look)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			eachText(v[key], append(slices.Clone(path), key), look)
		}
	}
}
