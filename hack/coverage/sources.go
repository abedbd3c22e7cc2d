package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// named matches a string literal that names a rule or a sequence. After the id there may be a contract version, as in
// "IM-05 v1beta2", or only a space, as in "IM-05 " + version.
var named = regexp.MustCompile(`^((?:T-)?[A-Z]+-\d\d\d?)(?: |(?: v1beta[12]))?$`)

// inARow is the largest number of rules that consecutive statements may record. More would be a list, not records at
// the lines that assert the rules.
const inARow = 3

// scan returns the places where the tests below a directory record each rule, as FILE:LINE, and the problems with these
// places.
func scan(root string) (sites map[string][]string, problems []string, err error) {
	sites = map[string][]string{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				problems = append(problems, lists(n.List, positions, relative)...)
			case *ast.CallExpr:
				for _, id := range arguments(n) {
					at := fmt.Sprintf("%s:%d", filepath.ToSlash(relative), positions.Position(n.Pos()).Line)
					sites[id] = append(sites[id], at)
				}
			}
			return true
		})
		return nil
	})
	return sites, problems, err
}

// arguments returns the rules that a call records: t.Attr("rule", "RX-05"), or a function with "record" in its name.
func arguments(call *ast.CallExpr) []string {
	if !records(call) {
		return nil
	}
	var ids []string
	for _, argument := range call.Args {
		if sum, ok := argument.(*ast.BinaryExpr); ok {
			argument = sum.X
		}
		literal, ok := argument.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			continue
		}
		if m := named.FindStringSubmatch(text); m != nil {
			ids = append(ids, m[1])
		}
	}
	return ids
}

// records reports whether a call records a rule.
func records(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if f.Sel.Name != "Attr" {
			return strings.Contains(strings.ToLower(f.Sel.Name), "record")
		}
		if len(call.Args) != 2 {
			return false
		}
		key, ok := call.Args[0].(*ast.BasicLit)
		return ok && key.Value == `"rule"`
	case *ast.Ident:
		return strings.Contains(strings.ToLower(f.Name), "record")
	}
	return false
}

// lists returns a problem if there are more records in a row than one assertion can be about.
func lists(statements []ast.Stmt, positions *token.FileSet, file string) []string {
	var problems []string
	count := 0
	for _, s := range statements {
		call, ok := s.(*ast.ExprStmt)
		if ok {
			if c, isCall := call.X.(*ast.CallExpr); isCall && len(arguments(c)) > 0 {
				if count++; count == inARow+1 {
					problems = append(problems, fmt.Sprintf(
						"%s:%d: more than %d rules are recorded in a row: record each where it is asserted",
						file,
						positions.Position(s.Pos()).Line,
						inARow,
					))
				}
				continue
			}
		}
		count = 0
	}
	return problems
}
