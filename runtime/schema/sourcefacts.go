package schema

import (
	"go/ast"
	"go/token"
	"strconv"
	"time"
)

// life is the deprecation of a hook's version, as found in the source.
type life struct{ deprecated, deprecatedOn string }

// unnamed replaces the deprecating release where the source does not name it.
const unnamed = "a release that is not named"

// lives finds deprecations of hooks. It reads hook.About(Hook, hook.Facts{Deprecated: "v1.10", DeprecatedOn:
// time.Date(...)}) with literal values, and Cluster API's RegisterHook(Hook, &HookMeta{Deprecated: true}). The result
// is keyed by the name of the hook's variable or function.
func (p *sourcePackage) lives() map[string]life {
	found := map[string]life{}
	for _, name := range p.fileNames() {
		ast.Inspect(p.files[name], func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				return true
			}
			switch calledName(call.Fun) {
			case "About", "RegisterHook":
			default:
				return true
			}
			if said, ok := p.lifeOf(call.Args[1]); ok {
				found[calledName(call.Args[0])] = said
			}
			return true
		})
	}
	return found
}

// calledName returns the last part of a name.
func calledName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func (p *sourcePackage) lifeOf(expression ast.Expr) (life, bool) {
	if address, ok := expression.(*ast.UnaryExpr); ok && address.Op == token.AND {
		expression = address.X
	}
	literal, ok := expression.(*ast.CompositeLit)
	if !ok {
		return life{}, false
	}
	var said life
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch calledName(pair.Key) {
		case "Deprecated":
			if release, ok := p.text(pair.Value); ok {
				said.deprecated = release
			} else if calledName(pair.Value) == "true" {
				said.deprecated = unnamed
			}
		case "DeprecatedOn":
			said.deprecatedOn = dateOf(pair.Value)
		}
	}
	return said, said.deprecated != ""
}

// dateOf reads time.Date(2026, time.November, 21, ...).
func dateOf(expression ast.Expr) string {
	call, ok := expression.(*ast.CallExpr)
	if !ok || calledName(call.Fun) != "Date" || len(call.Args) < 3 {
		return ""
	}
	year, yearOK := numberOf(call.Args[0])
	day, dayOK := numberOf(call.Args[2])
	month, monthOK := numberOf(call.Args[1])
	for m := time.January; m <= time.December && !monthOK; m++ {
		if m.String() == calledName(call.Args[1]) {
			month, monthOK = int(m), true
		}
	}
	if !yearOK || !monthOK || !dayOK {
		return ""
	}
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

func numberOf(expression ast.Expr) (int, bool) {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.INT {
		return 0, false
	}
	n, err := strconv.Atoi(literal.Value)
	return n, err == nil
}
