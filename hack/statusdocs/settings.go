package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// agentPage returns the settings of the agent's file, from the Go docs of their fields.
func agentPage(root string) (string, error) {
	file := filepath.Join(root, "agent/config/config.go")
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	var rows []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, isType := n.(*ast.TypeSpec)
		if !isType || spec.Name.Name != "Config" || err != nil {
			return err == nil
		}
		if fields, isStruct := spec.Type.(*ast.StructType); isStruct {
			rows, err = settings(fields)
		}
		return false
	})
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("%s has no struct Config", file)
	}
	if err != nil {
		return "", err
	}
	return "# Settings of the agent\n\n" +
		"`make generate` makes this page from the code that reads the agent's file, `/etc/capstan/agent.yaml`, which has " +
		"mode 0600.\n`capstan-agent enroll` writes this file. [owned-hosts.md](../owned-hosts.md) shows how to write it " +
		"by hand.\n\n" +
		"| Setting | Type | What it is |\n|---|---|---|\n" + strings.Join(rows, ""), nil
}

// settings returns the rows of a struct: its fields with a name in YAML. A field without a doc shares the doc of the
// previous field, which names both.
func settings(fields *ast.StructType) ([]string, error) {
	var rows []string
	doc := ""
	for _, f := range fields.Fields.List {
		if f.Doc != nil {
			doc = strings.ReplaceAll(strings.Join(strings.Fields(f.Doc.Text()), " "), "|", `\|`)
		}
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		if doc == "" {
			return nil, fmt.Errorf("setting %s has no doc", name)
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", name, last(f.Type), doc))
	}
	return rows, nil
}
