package schema

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/runtime/hook"
)

// Source reads hooks from the source of Go packages. Nothing is compiled or run.
//
// It finds hooks published in either form: as functions func Name(*Request, *Response) {} in a package with a variable
// GroupVersion, as Cluster API does, and as calls of hook.Define.
type Source struct {
	// Locate returns the directory of a package; see [Module]. If it fails, the package's types are described as Any; see
	// [Source.Missing].
	Locate func(ctx context.Context, importPath string) (directory string, err error)

	missing  map[string]error
	packages map[string]*sourcePackage
	document *Document
}

// ErrNoHooks means that a package declares no hook.
var ErrNoHooks = errors.New("it declares no hooks")

// Read describes the hooks that a package declares, and all types that they use, from any package.
func (s *Source) Read(ctx context.Context, importPath string) (*Document, error) {
	s.packages, s.document, s.missing = map[string]*sourcePackage{}, New(), map[string]error{}
	pkg, err := s.load(ctx, importPath)
	if err != nil {
		return nil, fmt.Errorf("reading the hooks of package %s: %w", importPath, err)
	}
	lives := pkg.lives()
	for _, declared := range pkg.hooks() {
		file := pkg.files[declared.file]
		request, response := s.typeOf(ctx, pkg, file, declared.request), s.typeOf(ctx, pkg, file, declared.response)
		if request.Ref == "" || response.Ref == "" {
			return nil, fmt.Errorf("reading the hooks of package %s: request and response of %s must be named structs",
				importPath, declared.id)
		}
		s.document.Hooks[declared.id.String()] = &Hook{
			Request: request.Ref, Response: response.Ref, Description: declared.comment,
			Blocking:   s.document.Types[response.Ref].Fields["retryAfterSeconds"] != nil,
			Deprecated: lives[declared.name].deprecated, DeprecatedOn: lives[declared.name].deprecatedOn,
		}
	}
	if len(s.document.Hooks) == 0 {
		return nil, fmt.Errorf("reading the hooks of package %s: %w", importPath, ErrNoHooks)
	}
	return s.document, s.document.Check()
}

func (s *Source) load(ctx context.Context, importPath string) (*sourcePackage, error) {
	if pkg, ok := s.packages[importPath]; ok {
		return pkg, nil
	}
	directory, err := s.Locate(ctx, importPath)
	if err != nil {
		return nil, err
	}
	pkg, err := parsePackage(importPath, directory)
	if err != nil {
		return nil, err
	}
	s.packages[importPath] = pkg
	return pkg, nil
}

// Missing returns the packages that the last Read did not find, sorted, with the reason for each: changes in their
// types go unnoticed. Packages of the standard library are not included.
func (s *Source) Missing() []string {
	var all []string
	for importPath, err := range s.missing {
		if first, _, _ := strings.Cut(importPath, "/"); strings.Contains(first, ".") {
			all = append(all, fmt.Sprintf("%s: %v", importPath, err))
		}
	}
	slices.Sort(all)
	return all
}

// declaredHook is a hook as declared in the source.
type declaredHook struct {
	id                hook.ID
	name              string // of its variable or function
	file              string
	comment           string
	request, response ast.Expr
}

// hooks finds the hooks of a package, sorted by name.
func (p *sourcePackage) hooks() []declaredHook {
	var found []declaredHook
	group, version := p.groupVersion("GroupVersion")
	for _, name := range p.fileNames() {
		for _, declaration := range p.files[name].Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if request, response, ok := hookFunction(d); ok && group != "" {
					found = append(found, declaredHook{
						id:   hook.ID{Group: group, Version: version, Name: d.Name.Name},
						name: d.Name.Name, file: name, comment: comment(d.Doc), request: request, response: response,
					})
				}
			case *ast.GenDecl:
				found = append(found, p.definedHooks(name, d)...)
			}
		}
	}
	slices.SortFunc(found, func(a, b declaredHook) int { return strings.Compare(a.id.String(), b.id.String()) })
	return found
}

// hookFunction reports whether a declaration is func Name(*Request, *Response) {}.
func hookFunction(d *ast.FuncDecl) (request, response ast.Expr, ok bool) {
	parameters := d.Type.Params.List
	if d.Recv != nil || !d.Name.IsExported() || d.Type.Results != nil || d.Body == nil || len(d.Body.List) > 0 ||
		len(parameters) != 2 {
		return nil, nil, false
	}
	first, firstOK := parameters[0].Type.(*ast.StarExpr)
	second, secondOK := parameters[1].Type.(*ast.StarExpr)
	if !firstOK || !secondOK {
		return nil, nil, false
	}
	return first.X, second.X, true
}

// definedHooks finds variables that are set to Define[Request, Response](groupVersion, "Name").
func (p *sourcePackage) definedHooks(file string, d *ast.GenDecl) []declaredHook {
	if d.Tok != token.VAR {
		return nil
	}
	var found []declaredHook
	for _, spec := range d.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, expression := range value.Values {
			call, ok := expression.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 {
				continue
			}
			function, ok := call.Fun.(*ast.IndexListExpr)
			if !ok || len(function.Indices) < 2 {
				continue
			}
			selector, ok := function.X.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Define" {
				continue
			}
			group, version := p.groupVersionOf(call.Args[0])
			name, ok := p.text(call.Args[1])
			if group == "" || !ok {
				continue
			}
			text := comment(value.Doc)
			if text == "" {
				text = comment(d.Doc)
			}
			found = append(found, declaredHook{
				id: hook.ID{Group: group, Version: version, Name: name}, name: value.Names[i].Name, file: file, comment: text,
				request: function.Indices[0], response: function.Indices[1],
			})
		}
	}
	return found
}

// groupVersion reads a variable like schema.GroupVersion{Group: "...", Version: "..."}.
func (p *sourcePackage) groupVersion(name string) (group, version string) {
	if value, ok := p.values[name]; ok {
		return p.groupVersionOf(value)
	}
	return "", ""
}

func (p *sourcePackage) groupVersionOf(expression ast.Expr) (group, version string) {
	switch e := expression.(type) {
	case *ast.Ident:
		if value, ok := p.values[e.Name]; ok && value != expression {
			return p.groupVersionOf(value)
		}
	case *ast.CompositeLit:
		for _, element := range e.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			key, ok := pair.Key.(*ast.Ident)
			if !ok {
				continue
			}
			text, _ := p.text(pair.Value)
			switch key.Name {
			case "Group":
				group = text
			case "Version":
				version = text
			}
		}
	}
	return group, version
}

// text reads a string, or a string constant of the package.
func (p *sourcePackage) text(expression ast.Expr) (string, bool) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.Ident:
		if value, ok := p.values[e.Name]; ok && value != expression {
			return p.text(value)
		}
	}
	return "", false
}
