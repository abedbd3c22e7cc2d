package reader

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// selected is the variable that enables running the commands: they build bundles, create clusters, and take minutes.
const selected = "CAPSTAN_TEST_DOCS"

// pages lists the pages whose commands run, with the first command of each block that does not run. Because of this
// list, a mark on a page is not enough to skip a block.
var pages = map[string][]string{
	"README.md":        {"make build owned-bundle"},
	"docs/tutorial.md": {"capstan up --listen 192.0.2.1", "capstan host list"},
}

// read returns the blocks of a page. It moves the project of the tutorial's extension to a directory of the test.
func read(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "/tmp/quota", filepath.Join(t.TempDir(), "quota"))
	all, err := blocks(text)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	return all
}

// TestBlocksThatDoNotRun checks that all blocks of the README and the tutorials run, except those in the list.
func TestBlocksThatDoNotRun(t *testing.T) {
	tutorials, err := filepath.Glob("../../docs/tutorial*.md")
	if err != nil || len(tutorials) == 0 {
		t.Fatal(tutorials, err)
	}
	for _, path := range tutorials {
		page := "docs/" + filepath.Base(path)
		if _, is := pages[page]; !is {
			t.Errorf("no test runs the commands of %s", page)
		}
	}
	for page, want := range pages {
		var not []string
		run, shown := 0, 0
		for _, b := range read(t, page) {
			if len(b.commands) == 0 {
				t.Errorf("%s:%d: the block has no commands", page, b.line)
				continue
			}
			if b.notRun != "" {
				not = append(not, b.commands[0].text)
				continue
			}
			run++
			for _, c := range b.commands {
				shown += len(c.shown)
			}
		}
		if !slices.Equal(not, want) {
			t.Errorf("%s: the blocks %q don't run, want only %q", page, not, want)
		}
		t.Logf("%s: %d blocks run, with %d lines of output; %d don't run", page, run, shown, len(not))
	}
}

func TestReadme(t *testing.T)   { typeAll(t, "README.md") }
func TestTutorial(t *testing.T) { typeAll(t, "docs/tutorial.md") }

// typeAll runs the blocks of a page in their order.
func typeAll(t *testing.T, page string) {
	t.Helper()
	if os.Getenv(selected) == "" {
		t.Skip("takes minutes: make test-docs runs it")
	}
	p := sitDown(t, page)
	for _, b := range read(t, page) {
		if b.notRun != "" {
			t.Logf("%s:%d: not run: %s", page, b.line, b.notRun)
			continue
		}
		p.follow(b)
	}
}
