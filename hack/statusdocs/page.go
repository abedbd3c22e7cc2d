package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// pages are the files that this command writes.
var pages = map[string]func(root string) (string, error){
	"conditions.md": conditionsPage,
	"events.md":     eventsPage,
	"agent.md":      agentPage,
}

// group is the content of one part of a page: constants of some files.
type group struct {
	title, intro string
	files        []string
}

var conditionGroups = []group{
	{
		"Hosts, machines and clusters",
		"CapstanHosts, CapstanMachines and CapstanClusters have these conditions. While another condition keeps `Ready` " +
			"from being True, `Ready` has the reason of that condition. Ids such as IM-30 name rules of Cluster API's " +
			"provider contracts.",
		[]string{"api/v1beta2/conditions.go"},
	},
	{
		"Runtime extensions",
		"ExtensionConfigs have these conditions in addition to the conditions that Cluster API defines.",
		[]string{"runtime/extensionconfig/conditions.go", "runtime/client/discover.go"},
	},
}

const apiEvents = "api/v1beta2/events.go"

var eventGroups = []group{
	{"Hosts, machines and clusters", "`capstan-manager` records these Events.", []string{apiEvents}},
	{
		"Lifecycle hooks", "Programs that call runtime extensions with `runtime/client` record these Events on Clusters.",
		[]string{"runtime/blockevent/blockevent.go"},
	},
	{
		"Providers on the plane", "The management plane of `capstan up` runs Deployments of providers as " +
			"processes, and records this Event on a Deployment.", []string{"plane/providers/child.go"},
	},
}

const made = "`make generate` makes this page from the Go docs of the constants. " +
	"[troubleshooting](../troubleshooting.md) says what to do about each reason.\n"

func conditionsPage(root string) (string, error) {
	var b strings.Builder
	b.WriteString("# Conditions\n\n" + made)
	for _, g := range conditionGroups {
		all, err := g.constants(root)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Condition | What it is |\n|---|---|\n", g.title, g.intro)
		for _, c := range all {
			if strings.HasSuffix(c.name, "Condition") {
				fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, c.sentence(all))
			}
		}
		b.WriteString("\n| Reason | What it means |\n|---|---|\n")
		for _, c := range all {
			if strings.HasSuffix(c.name, "Reason") {
				fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, c.sentence(all))
			}
		}
	}
	return b.String(), nil
}

func eventsPage(root string) (string, error) {
	calls, err := recorded(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("# Events\n\n" + made)
	for _, g := range eventGroups {
		all, err := g.constants(root)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| Reason | Type | What it says |\n|---|---|---|\n", g.title, g.intro)
		for _, c := range all {
			if !c.event() {
				continue
			}
			kind := calls[c.name]
			if inDoc, found := c.kind(); found {
				kind = inDoc
			}
			if kind == "" {
				return "", fmt.Errorf("no call of Eventf records %s", c.name)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.value, kind, c.sentence(all))
		}
		if g.files[0] == apiEvents {
			repeated, err := obstacles(root)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "\nWhen condition `Ready` of an object changes to one of the following reasons, a Warning Event "+
				"repeats the reason and\nthe message. When `Ready` becomes True again, a Normal Event with reason `Ready` says "+
				"so.\n\n- `%s`\n",
				strings.Join(repeated, "`\n- `"))
		}
	}
	return b.String(), nil
}

// constants returns the documented string constants of the group's files.
func (g group) constants(root string) ([]constant, error) {
	var all []constant
	for _, file := range g.files {
		found, err := constantsOf(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// obstacles returns the reasons of Ready that are also recorded as Events.
func obstacles(root string) ([]string, error) {
	values, err := conditionGroups[0].constants(root)
	if err != nil {
		return nil, err
	}
	names, err := keysOf(filepath.Join(root, "provider/readyevent/readyevent.go"), "obstacles")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, c := range values {
		if slices.Contains(names, c.name) {
			found = append(found, c.value)
		}
	}
	if len(found) == 0 || len(found) != len(names) {
		return nil, fmt.Errorf("only %d of the %d obstacles are constants of the API", len(found), len(names))
	}
	slices.Sort(found)
	return found, nil
}
