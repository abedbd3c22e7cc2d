package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sourcePackage is a parsed package.
type sourcePackage struct {
	path    string
	files   map[string]*ast.File
	types   map[string]sourceType
	values  map[string]ast.Expr            // of variables and constants
	strings map[string][]string            // values of constants, by the name of their type
	methods map[string]map[string]ast.Node // by type, then name: bodies
}

type sourceType struct {
	file    *ast.File
	spec    *ast.TypeSpec
	comment *ast.CommentGroup
}

func parsePackage(importPath, directory string) (*sourcePackage, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("reading its source: %w", err)
	}
	p := &sourcePackage{
		path: importPath, files: map[string]*ast.File{}, types: map[string]sourceType{}, values: map[string]ast.Expr{},
		strings: map[string][]string{}, methods: map[string]map[string]ast.Node{},
	}
	positions := token.NewFileSet()
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(positions, filepath.Join(directory, name), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading its source: %w", err)
		}
		p.files[name] = file
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("reading its source: %s has no Go files", directory)
	}
	for _, name := range p.fileNames() {
		p.index(p.files[name])
	}
	return p, nil
}

func (p *sourcePackage) fileNames() []string { return slices.Sorted(maps.Keys(p.files)) }

func (p *sourcePackage) index(file *ast.File) {
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if receiver := receiverOf(d); receiver != "" {
				if p.methods[receiver] == nil {
					p.methods[receiver] = map[string]ast.Node{}
				}
				p.methods[receiver][d.Name.Name] = d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					text := s.Doc
					if text == nil {
						text = d.Doc
					}
					p.types[s.Name.Name] = sourceType{file: file, spec: s, comment: text}
				case *ast.ValueSpec:
					p.indexValues(s)
				}
			}
		}
	}
}

func (p *sourcePackage) indexValues(s *ast.ValueSpec) {
	for i, name := range s.Names {
		if i >= len(s.Values) {
			return
		}
		p.values[name.Name] = s.Values[i]
		named, ok := s.Type.(*ast.Ident)
		if !ok {
			continue
		}
		if text, ok := p.text(s.Values[i]); ok {
			p.strings[named.Name] = append(p.strings[named.Name], text)
		}
	}
}

func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) != 1 {
		return ""
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// imported returns the import path that a name refers to in a file.
func imported(file *ast.File, name string) string {
	for _, spec := range file.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		switch {
		case spec.Name != nil && spec.Name.Name == name:
			return importPath
		case spec.Name == nil && (path.Base(importPath) == name ||
			isMajor(path.Base(importPath)) && path.Base(path.Dir(importPath)) == name):
			return importPath
		}
	}
	return ""
}

// isMajor reports whether the last part of an import path is a major version, like v2, and not the package's name.
func isMajor(last string) bool {
	number, ok := strings.CutPrefix(last, "v")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// encoding describes a type with its own encoding: by what its method OpenAPISchemaType returns, or as Any.
func (p *sourcePackage) encoding(name string) (*Type, bool) {
	methods := p.methods[name]
	if body, ok := methods["OpenAPISchemaType"]; ok {
		format := ""
		if texts := literals(methods["OpenAPISchemaFormat"]); len(texts) == 1 {
			format = texts[0]
		}
		return encodedAs(literals(body), format), true
	}
	if _, ok := methods["MarshalJSON"]; ok {
		return &Type{Kind: Any}, true
	}
	if _, ok := methods["MarshalText"]; ok {
		return &Type{Kind: String}, true
	}
	return nil, false
}

// literals returns the string literals in a function.
func literals(body ast.Node) []string {
	var texts []string
	if body == nil {
		return nil
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
