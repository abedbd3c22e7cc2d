package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
)

// constant is an exported string constant with its Go doc, on one line.
type constant struct{ name, value, doc string }

// event reports whether the constant is the reason of an Event.
func (c constant) event() bool {
	return strings.HasSuffix(c.name, "Event") || strings.HasPrefix(c.name, "Reason")
}

// kind returns the text in parentheses after the name in the doc: the type of an Event.
func (c constant) kind() (string, bool) {
	rest, found := strings.CutPrefix(c.doc, c.name+" (")
	if !found {
		return "", false
	}
	kind, _, found := strings.Cut(rest, ")")
	return kind, found
}

// sentence returns the doc for a row: without the name of the constant, and with names of other constants replaced by
// their values.
func (c constant) sentence(all []constant) string {
	text := strings.TrimPrefix(c.doc, c.name)
	if _, found := c.kind(); found {
		_, text, _ = strings.Cut(text, ")")
	}
	text = strings.TrimPrefix(strings.TrimPrefix(text, ":"), " is ")
	for _, other := range all {
		text = strings.ReplaceAll(text, other.name, "`"+other.value+"`")
	}
	text = strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`)
	return strings.ToUpper(text[:1]) + text[1:]
}

// constantsOf returns the exported conditions, reasons and Events of a Go file. Each needs a doc that begins with its
// name.
func constantsOf(file string) ([]constant, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var all []constant
	for _, decl := range parsed.Decls {
		group, isGroup := decl.(*ast.GenDecl)
		if !isGroup || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if len(value.Names) != 1 || len(value.Values) != 1 || !value.Names[0].IsExported() {
				continue
			}
			text, isText := literal(value.Values[0])
			c := constant{name: value.Names[0].Name, value: text}
			if !isText || !c.event() && !strings.HasSuffix(c.name, "Condition") && !strings.HasSuffix(c.name, "Reason") {
				continue
			}
			doc := value.Doc
			if doc == nil && !group.Lparen.IsValid() {
				doc = group.Doc
			}
			c.doc = strings.Join(strings.Fields(doc.Text()), " ")
			if !strings.HasPrefix(c.doc, c.name) || len(c.doc) < len(c.name)+10 {
				return nil, fmt.Errorf("%s: %s needs a doc that begins with its name", file, c.name)
			}
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no constants for this page", file)
	}
	return all, nil
}

// keysOf returns the names of the constants that are keys of a map in a Go file.
func keysOf(file, variable string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return nil, err
	}
	var names []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, isSpec := n.(*ast.ValueSpec)
		if !isSpec || len(spec.Names) != 1 || spec.Names[0].Name != variable || len(spec.Values) != 1 {
			return true
		}
		if values, isLiteral := spec.Values[0].(*ast.CompositeLit); isLiteral {
			for _, e := range values.Elts {
				if pair, isPair := e.(*ast.KeyValueExpr); isPair {
					names = append(names, last(pair.Key))
				}
			}
		}
		return true
	})
	return names, nil
}

// recorded returns the type of each Event that provider/ and plane/ record, by the name of the constant for its reason.
func recorded(root string) (map[string]string, error) {
	found := map[string]string{}
	err := calls(root, func(position token.Position, call *ast.CallExpr) error {
		if name := last(call.Fun); name != "Eventf" || len(call.Args) < 6 {
			return nil
		}
		kind, _ := literal(call.Args[2])
		if kind == "" {
			kind = strings.TrimPrefix(last(call.Args[2]), "EventType")
		}
		reason := last(call.Args[3])
		if reason == "" {
			return fmt.Errorf("%s: the reason of an Event must be a documented constant", position)
		}
		found[reason] = kind
		return nil
	})
	return found, err
}

// calls visits all calls in the Go files of provider/ and plane/, without tests.
func calls(root string, visit func(token.Position, *ast.CallExpr) error) error {
	for _, dir := range []string{"provider", "plane"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if call, isCall := n.(*ast.CallExpr); isCall && err == nil {
					err = visit(files.Position(call.Pos()), call)
				}
				return err == nil
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// last returns the last name of an identifier or selector; "" for anything else.
func last(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// literal returns the value of a string literal.
func literal(e ast.Expr) (string, bool) {
	basic, isBasic := e.(*ast.BasicLit)
	if !isBasic || basic.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(basic.Value)
	return text, err == nil
}
