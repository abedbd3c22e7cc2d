package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// pages returns the paths of all Markdown files, relative to the root.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (name == "bin" || name == "testdata" || name == ".git" || name == ".cache"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".md"):
			found = append(found, strings.TrimPrefix(path, root+"/"))
		}
		return nil
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("%d pages, %v", len(found), err)
	}
	return found
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var (
	// link matches [text](target), without images and without a title.
	link = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`|\n(    |\t)[^\n]*")
	head = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	word = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// anchors returns GitHub's anchors for the headings of a page.
func anchors(text string) map[string]bool {
	names, seen := map[string]bool{}, map[string]int{}
	for _, m := range head.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(word.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		if n := seen[name]; n > 0 {
			names[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			names[name] = true
		}
		seen[name]++
	}
	return names
}

func TestLinksLeadSomewhere(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			checked++
			file, anchor, _ := strings.Cut(m[1], "#")
			target, aim := page, text
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s: there is no %s", page, m[1])
					continue
				}
				aim = ""
			}
			if anchor == "" || !strings.HasSuffix(target, ".md") {
				continue
			}
			if aim == "" {
				aim = read(t, target)
			}
			if !anchors(aim)[anchor] {
				t.Errorf("%s: %s has no heading for #%s", page, target, anchor)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d links were checked: the pattern no longer matches", checked)
	}
}

// TestADRsAreInTheIndex: each decision is in docs/adr/README.md with its title.
func TestADRsAreInTheIndex(t *testing.T) {
	index := read(t, "docs/adr/README.md")
	files, err := filepath.Glob(filepath.Join(root, "docs/adr/0*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	title := regexp.MustCompile(`\A# (\d+)\. (.+)\n`)
	for i, file := range files {
		m := title.FindStringSubmatch(read(t, strings.TrimPrefix(file, root+"/")))
		name := filepath.Base(file)
		if m == nil || m[1] != fmt.Sprint(i+1) || !strings.HasPrefix(name, fmt.Sprintf("%04d-", i+1)) {
			t.Errorf("%s does not begin with \"# %d. Title\", or numbers are missing or taken twice", name, i+1)
			continue
		}
		if want := fmt.Sprintf("| [%s](%s) | %s |\n", m[1], name, m[2]); !strings.Contains(index, want) {
			t.Errorf("docs/adr/README.md lacks the row %s", want)
		}
	}
}
