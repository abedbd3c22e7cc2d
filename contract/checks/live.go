package checks

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/contract/check"
	"github.com/capstan-dev/capstan/contract/source"
)

// dryRunRules are the rules about the topology controller's dry runs.
var dryRunRules = ruleOf{machineTemplate: "IMT-12", configTemplate: "BP-24", poolTemplate: "MP-26"}

var liveChecks = []*check.Check{
	{
		ID: "template-dry-run", Level: check.Must, Contracts: contracts,
		Page: machinePage + "#inframachinetemplate-support-for-ssa-dry-run",
		Doc:  "A template that refuses changes accepts them in dry runs of the topology controller, and nowhere else.",
		Why: "The topology controller uses a dry run to find out what a change would do. If the dry run is refused, " +
			"each change of a ClusterClass and each upgrade stops.",
		Fix: "In the webhook, skip the check for forbidden changes if topology.IsDryRunRequest returns true, and only " +
			"then. Do not use a rule in the schema for this check.",
		Rules: dryRunRules.ids(), Needs: []check.Need{check.Definitions, check.Installed}, Drive: templateDryRun,
	},
}

// Live returns the checks that drive a provider. The caller may change the slice but not the checks.
func Live() []*check.Check { return slices.Clone(liveChecks) }

// The field managers of the checks' own requests, and of requests that imitate the topology controller.
const (
	ownManager      = "capstan-verify"
	topologyManager = "capi-topology"
)

func templateDryRun(ctx context.Context, p *check.Pass, d check.Driver) {
	for _, r := range resources(p) {
		if rule := dryRunRules[r.role]; rule != "" {
			t := drivenTemplate{subject{resource: r, pass: p, rule: rule}, d}
			if err := t.try(ctx); err != nil {
				p.Failed(err)
			}
		}
	}
}

// drivenTemplate is a template kind that a live check drives.
type drivenTemplate struct {
	subject
	driver check.Driver
}

// try creates a copy of a template in the release and tries to change it.
func (t drivenTemplate) try(ctx context.Context) error {
	for _, example := range t.examples() {
		made, err := t.apply(ctx, example, ownManager, false)
		if made == nil {
			if err != nil {
				return err
			}
			continue // the release has other examples
		}
		return errors.Join(t.change(ctx, example, made), t.driver.Delete(ctx, example))
	}
	return nil
}

// examples returns objects of the kind in the templates and ClusterClasses of the release, in the version that core
// reads. It leaves out objects with unset variables.
func (t drivenTemplate) examples() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, role := range []source.Role{source.Template, source.Class} {
		for _, f := range t.pass.Release.Of(role) {
			for _, o := range f.Objects {
				spec, ok := o.Get("spec").(map[string]any)
				if o.Kind() != t.kind() || o.Group() != t.CRD.Spec.Group || !ok || hasVariable(spec) {
					continue
				}
				u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.Text("apiVersion"), "kind": t.kind()}}
				u.Object["spec"] = (&unstructured.Unstructured{Object: spec}).DeepCopy().Object
				u.SetName(ownManager + "-" + strings.ToLower(t.kind()))
				all = append(all, u)
			}
		}
	}
	return all
}

func hasVariable(value any) bool {
	found := false
	eachText(value, nil, func(_ []string, text string) { found = found || strings.Contains(text, "${") })
	return found
}

// change tries changes that are valid in a new template until one is refused. A refusal shows that the template is
// immutable, so the rule applies.
func (t drivenTemplate) change(ctx context.Context, example, made *unstructured.Unstructured) error {
	_, version, _ := strings.Cut(example.GetAPIVersion(), "/")
	whole, _ := t.Schema(version)
	schema, ok := whole.Property("spec", "template", "spec")
	if !ok {
		return nil // template-spec reports this
	}
	for _, field := range changes(schema, nil) {
		changed := example.DeepCopy()
		at := append([]string{"spec", "template", "spec"}, field.steps...)
		value, _, _ := unstructured.NestedFieldNoCopy(changed.Object, at...)
		if unstructured.SetNestedField(changed.Object, field.other(value), at...) != nil {
			continue // the example has another type at a step of the path
		}
		fresh := changed.DeepCopy()
		fresh.SetName(fresh.GetName() + "-new")
		if valid, err := t.apply(ctx, fresh, ownManager, true); valid == nil && err == nil {
			continue // the value is invalid even in a new template
		} else if err != nil {
			return err
		}
		if got, err := t.apply(ctx, changed, ownManager, true); got != nil || err != nil {
			return err // the template is mutable
		}
		return t.dryRun(ctx, changed, made)
	}
	return nil
}

// dryRun requests a change in a dry run, as the topology controller would. Then it requests the same change for real,
// with the dry-run annotation.
func (t drivenTemplate) dryRun(ctx context.Context, changed, made *unstructured.Unstructured) error {
	changed.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
	_, err := t.driver.Apply(ctx, changed, check.Applying{Manager: topologyManager, DryRun: true})
	var refused *check.RefusedError
	switch {
	case errors.As(err, &refused):
		t.broken(nil, "%s refuses the topology controller's dry run: %s", t.kind(), refused.Message)
		return nil
	case err != nil:
		return err
	}
	if _, err := t.apply(ctx, changed, topologyManager, false); err != nil {
		return err
	}
	for now, err := range t.driver.Observe(ctx, changed) {
		if err == nil && now != nil && !reflect.DeepEqual(now.Object["spec"], made.Object["spec"]) {
			t.broken(nil, "the annotation of a dry run lets anybody change %s", t.kind())
		}
		return err
	}
	return ctx.Err()
}

// apply applies the object and returns the result. It returns nil and no error if the request is refused.
func (t drivenTemplate) apply(ctx context.Context, o *unstructured.Unstructured, manager string, dry bool) (
	*unstructured.Unstructured, error,
) {
	got, err := t.driver.Apply(ctx, o.DeepCopy(), check.Applying{Manager: manager, DryRun: dry})
	if errors.As(err, new(*check.RefusedError)) {
		return nil, nil
	}
	return got, err
}

// fieldChange is a field that can be changed, and how.
type fieldChange struct {
	steps []string
	// other returns a value other than the field's current one.
	other func(any) any
}

// changeDepth is the number of levels below the spec at which fields are changed.
const changeDepth = 3

// changes returns the fields of a schema that can be changed, shallow ones first.
func changes(s source.Schema, steps []string) []fieldChange {
	var all, below []fieldChange
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field, _ := s.Property(name)
		at := append(slices.Clone(steps), name)
		if other := anotherValue(field); other != nil {
			all = append(all, fieldChange{at, other})
		}
		if field.Type == "object" && len(at) < changeDepth {
			below = append(below, changes(field, at)...)
		}
	}
	return append(all, below...)
}

// anotherValue returns a function that returns another valid value for a field, or nil if the valid values are unknown.
func anotherValue(field source.Schema) func(any) any {
	switch {
	case field.Type == "boolean":
		return func(now any) any { return now != true }
	case field.Type == "integer":
		return func(now any) any {
			n, _ := now.(int64)
			return n + 1
		}
	case field.Type == "string" && len(field.Enum) > 0:
		return func(now any) any {
			for _, v := range field.Enum {
				if value := strings.Trim(string(v.Raw), `"`); value != now && value != "" {
					return value
				}
			}
			return now
		}
	case field.Type == "string":
		return func(now any) any {
			if now == "capstan-a" {
				return "capstan-b"
			}
			return "capstan-a"
		}
	case field.Type == "object" && field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil &&
		field.AdditionalProperties.Schema.Type == "string":
		return func(any) any { return map[string]any{"capstan": "verify"} }
	}
	return nil
}
