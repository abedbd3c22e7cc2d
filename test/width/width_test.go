package width

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	root = "../.."
	// maxColumns is the maximum length of a line; a tab counts as one column, as in the usual linters.
	maxColumns = 120
	maxLines   = 450
)

// skipped reports whether the files in a directory are not sources that people write, but build output, copies from
// modules, or input of tests.
func skipped(path, name string) bool {
	switch name {
	case "bin", "dist", ".cache", ".git", "testdata", "node_modules":
		return true
	}
	return path == filepath.Join(root, "plane/manifests/upstream")
}

// files returns the paths of the files with this suffix that people write.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(path, d.Name()):
			return fs.SkipDir
		case d.Type().IsRegular() && strings.HasSuffix(path, suffix):
			found = append(found, path)
		}
		return nil
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("found %d files with suffix %s: %v", len(found), suffix, err)
	}
	return found
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// directive matches comments that tools read line by line.
var directive = regexp.MustCompile(`^//(go:|line |export | ?\+|nolint)`)

// free returns the lines of Go source that may be wider: raw strings (their line breaks are content), directives, code
// in doc comments, and the output of examples.
func free(src []byte) map[int]bool {
	lines := map[int]bool{}
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, scanner.ScanComments)
	output := -1 // the last line, so far, of the output of an example
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
		line := file.Line(pos)
		switch {
		case tok == token.STRING && text[0] == '`':
			for i := range strings.Count(text, "\n") + 1 {
				lines[line+i] = true
			}
		case tok == token.COMMENT && (text == "// Output:" || text == "// Unordered output:" || output == line-1):
			lines[line], output = true, line
		case tok == token.COMMENT && (directive.MatchString(text) || strings.HasPrefix(text, "//\t")):
			lines[line] = true
		}
	}
}

// wide returns the numbers of the lines that don't fit.
func wide(src []byte, free map[int]bool) (numbers []int) {
	for i, line := range bytes.Split(src, []byte("\n")) {
		if utf8.RuneCount(line) > maxColumns && !free[i+1] {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

func TestGo(t *testing.T) {
	for _, path := range files(t, ".go") {
		src := read(t, path)
		if generated.Match(src) {
			continue
		}
		for _, n := range wide(src, free(src)) {
			t.Errorf("%s:%d: wrap the line at %d columns", path, n, maxColumns)
		}
		if n := bytes.Count(src, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines: split it into files of at most %d lines, one per concern", path, n, maxLines)
		}
	}
}

// freeMarkdown returns the lines of a page that may be wider: code blocks, tables, and lines with a link or a code span
// that leaves no place to break.
func freeMarkdown(src []byte) map[int]bool {
	lines := map[int]bool{}
	fenced := false
	for i, line := range strings.Split(string(src), "\n") {
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```")
		if fence {
			fenced = !fenced
		}
		lines[i+1] = fenced || fence || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(line, "    ") ||
			strings.HasPrefix(line, "\t") || unbroken(trimmed)
	}
	return lines
}

var atom = regexp.MustCompile("`[^`]*`" + `|\[[^\]]*\]\([^)]*\)|\S+`)

// unbroken reports whether a line is one long link, code span or word, possibly after a list marker.
func unbroken(line string) bool {
	for _, a := range atom.FindAllString(line, -1) {
		if utf8.RuneCountInString(a) > maxColumns-20 {
			return true
		}
	}
	return false
}

// generatedPages matches the paths of pages that "make generate" writes.
var generatedPages = regexp.MustCompile(`^docs/(reference|checks)/|^docs/(field|flavors)\.md$`)

func TestMarkdown(t *testing.T) {
	for _, path := range files(t, ".md") {
		name := strings.TrimPrefix(path, root+"/")
		if generatedPages.MatchString(name) {
			continue
		}
		src := read(t, path)
		for _, n := range wide(src, freeMarkdown(src)) {
			t.Errorf("%s:%d: wrap the line at %d columns", path, n, maxColumns)
		}
	}
}

// The rules find what they should, and nothing else.
func TestRules(t *testing.T) {
	long := strings.Repeat("a b ", 40)
	for name, c := range map[string]struct {
		src, want string
		free      func([]byte) map[int]bool
	}{
		"a comment":                {"package p\n\n// " + long, "[3]", free},
		"code":                     {"package p\n\nvar x = \"" + long + "\"", "[3]", free},
		"comment after raw string": {"package p\n\nvar x = `a\n`\n// " + long, "[5]", free},
		"a raw string":             {"package p\n\nvar x = `a\n" + long + "`", "[]", free},
		"a directive":              {"package p\n\n//go:generate " + long, "[]", free},
		"a kubebuilder marker":     {"package p\n\n// +kubebuilder:" + long, "[]", free},
		"code in a comment":        {"package p\n\n//\t" + long, "[]", free},
		"the output of an example": {"package p\n\nfunc f() {\n\t// Output:\n\t// " + long + "\n}", "[]", free},
		"comment after example":    {"package p\n\nfunc f() {\n\t// Output:\n\t// x\n}\n\n// " + long, "[8]", free},
		"a comment on line 1":      {"// " + long + "\npackage p\n", "[1]", free},
		"prose":                    {"# p\n\n" + long, "[3]", freeMarkdown},
		"a list item":              {"- " + long, "[1]", freeMarkdown},
		"a table":                  {"| " + long, "[]", freeMarkdown},
		"a code block":             {"```\n" + long + "\n```\n" + long, "[4]", freeMarkdown},
		"an indented code block":   {"    " + long, "[]", freeMarkdown},
		"a link":                   {"- https://example.org/" + strings.ReplaceAll(long, " ", ""), "[]", freeMarkdown},
	} {
		if got := fmt.Sprint(wide([]byte(c.src), c.free([]byte(c.src)))); got != c.want {
			t.Errorf("%s: lines %s are too wide, want %s", name, got, c.want)
		}
	}
}
