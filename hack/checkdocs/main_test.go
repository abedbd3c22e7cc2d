package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/contract/checks"
)

const directory = "../../docs/checks"

// TestPagesAreUpToDate: the pages match the table: each check has a page, and there are no others.
func TestPagesAreUpToDate(t *testing.T) {
	want := pages()
	have, err := filepath.Glob(filepath.Join(directory, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range have {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want[filepath.Base(name)] {
			t.Errorf("%s does not match the table: run make generate", name)
		}
		delete(want, filepath.Base(name))
	}
	for name := range want {
		t.Errorf("%s is missing: run make generate", name)
	}
}

func TestRunRemovesOldPages(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gone.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	have, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if want := len(checks.All()) + len(checks.Live()) + 1; err != nil || len(have) != want {
		t.Errorf("there are %d pages (%v), want %d", len(have), err, want)
	}
}

func TestWrap(t *testing.T) {
	text := wrap("  - "+strings.Repeat("word ", 60), "    ")
	for line := range strings.Lines(text) {
		if len(line) > width+1 || !strings.HasPrefix(line, "    word") && !strings.HasPrefix(line, "  - word") {
			t.Errorf("a line is too long or has the wrong indentation: %q", line)
		}
	}
}
