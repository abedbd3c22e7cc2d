package schema

import (
	"context"
	"go/ast"
	"reflect"
	"slices"
	"strings"
)

// typeOf describes the type that an expression in a file denotes.
func (s *Source) typeOf(ctx context.Context, p *sourcePackage, file *ast.File, expression ast.Expr) *Type {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return s.typeOf(ctx, p, file, e.X)
	case *ast.ParenExpr:
		return s.typeOf(ctx, p, file, e.X)
	case *ast.ArrayType:
		if element, ok := e.Elt.(*ast.Ident); ok && (element.Name == "byte" || element.Name == "uint8") {
			return &Type{Kind: String, Format: "byte"}
		}
		return &Type{Kind: Array, Items: s.typeOf(ctx, p, file, e.Elt)}
	case *ast.MapType:
		return &Type{Kind: Map, Items: s.typeOf(ctx, p, file, e.Value)}
	case *ast.StructType:
		described := &Type{Kind: Object, Fields: map[string]*Field{}}
		s.fields(ctx, p, file, e, described)
		return described
	case *ast.Ident:
		if _, declared := p.types[e.Name]; declared {
			return s.named(ctx, p, e.Name)
		}
		return basic(e.Name)
	case *ast.SelectorExpr:
		if qualifier, ok := e.X.(*ast.Ident); ok {
			return s.foreign(ctx, imported(file, qualifier.Name), e.Sel.Name)
		}
	}
	return &Type{Kind: Any}
}

// foreign describes a type of another package.
func (s *Source) foreign(ctx context.Context, importPath, name string) *Type {
	if importPath == "" {
		return &Type{Kind: Any}
	}
	p, err := s.load(ctx, importPath)
	if err != nil {
		s.missing[importPath] = err
		return &Type{Kind: Any}
	}
	return s.named(ctx, p, name)
}

func (s *Source) named(ctx context.Context, p *sourcePackage, name string) *Type {
	declared, ok := p.types[name]
	if !ok {
		return &Type{Kind: Any}
	}
	if own, ok := p.encoding(name); ok {
		return own
	}
	structure, ok := declared.spec.Type.(*ast.StructType)
	if !ok {
		described := *s.typeOf(ctx, p, declared.file, declared.spec.Type)
		if described.Kind == String && described.Format == "" {
			described.Enum = enumOf(declared.comment)
			if len(described.Enum) == 0 && hasMarker(declared.comment, "enum") {
				described.Enum = slices.Sorted(slices.Values(p.strings[name]))
			}
		}
		return &described
	}
	full := p.path + "." + name
	if s.document.Types[full] == nil {
		described := &Type{Kind: Object, Fields: map[string]*Field{}, Description: comment(declared.comment)}
		s.document.Types[full] = described // before its fields: a type may be recursive
		s.fields(ctx, p, declared.file, structure, described)
	}
	return &Type{Ref: full}
}

func (s *Source) fields(ctx context.Context, p *sourcePackage, file *ast.File, structure *ast.StructType, into *Type) {
	for _, field := range structure.Fields.List {
		text := ""
		if field.Tag != nil {
			text = reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json")
		}
		tag := readTag(text)
		if tag.skip {
			continue
		}
		if len(field.Names) == 0 && tag.name == "" {
			if embedded := s.embedded(ctx, p, file, field.Type); embedded != nil {
				for name, f := range embedded.Fields {
					clone := *f
					into.Fields[name] = &clone
				}
			}
			continue
		}
		names := []string{tag.name}
		if tag.name == "" {
			names = nil
			for _, n := range field.Names {
				names = append(names, n.Name)
			}
		}
		for _, name := range names {
			if tag.name == "" && !ast.IsExported(name) {
				continue
			}
			described := s.typeOf(ctx, p, file, field.Type)
			f := &Field{Type: *described, Required: isRequired(field.Doc, tag)}
			if values := enumOf(field.Doc); len(values) > 0 {
				f.Enum = values
			}
			if text := comment(field.Doc); text != "" {
				f.Description = text
			}
			into.Fields[name] = f
		}
	}
}

// embedded returns the struct that is flattened into another, nil if it is not a struct.
func (s *Source) embedded(ctx context.Context, p *sourcePackage, file *ast.File, expression ast.Expr) *Type {
	t := s.typeOf(ctx, p, file, expression)
	if t.Ref != "" {
		t = s.document.Types[t.Ref]
	}
	if t == nil || t.Kind != Object {
		return nil
	}
	return t
}

// isRequired uses the markers; without one, a field with omitempty or omitzero is optional.
func isRequired(doc *ast.CommentGroup, tag jsonTag) bool {
	switch {
	case hasMarker(doc, "required"), hasMarker(doc, "kubebuilder:validation:Required"):
		return true
	case hasMarker(doc, "optional"), hasMarker(doc, "kubebuilder:validation:Optional"):
		return false
	}
	return !tag.optional
}

// lines returns the lines of a comment without their slashes.
func lines(doc *ast.CommentGroup) []string {
	if doc == nil {
		return nil
	}
	var all []string
	for _, c := range doc.List {
		all = append(all, strings.TrimSpace(strings.TrimPrefix(c.Text, "//")))
	}
	return all
}

func hasMarker(doc *ast.CommentGroup, marker string) bool {
	return slices.Contains(lines(doc), "+"+marker)
}

// enumOf reads the marker that lists the values of an enumeration.
func enumOf(doc *ast.CommentGroup) []string {
	for _, line := range lines(doc) {
		if list, ok := strings.CutPrefix(line, "+kubebuilder:validation:Enum="); ok {
			values := strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == '{' || r == '}' })
			for i := range values {
				values[i] = strings.Trim(values[i], `"`)
			}
			slices.Sort(values)
			return values
		}
	}
	return nil
}

// comment returns the text of a comment without markers.
func comment(doc *ast.CommentGroup) string {
	var kept []string
	for _, line := range lines(doc) {
		if !strings.HasPrefix(line, "+") && !strings.HasPrefix(line, "TODO") {
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(strings.Join(kept, "\n"))
}
