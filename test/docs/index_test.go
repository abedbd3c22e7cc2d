package docs

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestThePagesAreInTheIndex checks that links lead from docs/README.md to every page of docs/.
func TestThePagesAreInTheIndex(t *testing.T) {
	const index = "docs/README.md"
	reached := map[string]bool{index: true}
	for queue := []string{index}; len(queue) > 0; queue = queue[1:] {
		for _, next := range linked(queue[0], read(t, queue[0])) {
			if strings.HasPrefix(next, "docs/") && !reached[next] {
				reached[next] = true
				queue = append(queue, next)
			}
		}
	}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/") && !reached[page] {
			t.Errorf("%s: no link leads to it from %s: add a row there", page, index)
		}
	}
}

// TestTopPagesAreInTheIndexItself checks that the index itself links every page directly below docs/.
func TestTopPagesAreInTheIndexItself(t *testing.T) {
	direct := map[string]bool{"docs/README.md": true}
	for _, page := range linked("docs/README.md", read(t, "docs/README.md")) {
		direct[page] = true
	}
	for _, page := range pages(t) {
		if dir := filepath.Dir(page); (dir == "docs" || dir == "docs/reference") && !direct[page] {
			t.Errorf("docs/README.md does not link %s", page)
		}
	}
}

// linked returns the Markdown files that a page links, as paths relative to the root.
func linked(page, text string) []string {
	var found []string
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		file, _, _ := strings.Cut(m[1], "#")
		if strings.HasSuffix(file, ".md") && !strings.Contains(file, "://") {
			found = append(found, filepath.Join(filepath.Dir(page), file))
		}
	}
	return found
}
