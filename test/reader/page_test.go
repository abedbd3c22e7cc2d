package reader

import (
	"reflect"
	"strings"
	"testing"
)

func TestBlocks(t *testing.T) {
	page := strings.Join([]string{
		"# A page", "",
		"```sh", "make build", "export A=b   # a note", "", "curl \\", "  --fail", "```", "",
		"<!-- not run: needs", "another computer -->", "```sh", "capstan up", "```", "",
		"<!-- another shell -->", "<!-- serves: http://127.0.0.1:1/ -->", "", "    $ capstan up", "    ✓ dock  0s", "",
		"    ready", "    $ capstan down", "",
		"- a list", "  goes on", "    far", "",
		"```yaml", "a: b", "```",
	}, "\n")
	want := []block{
		{line: 4, commands: []command{{4, "make build", nil}, {5, "export A=b", nil}, {7, "curl \\\n  --fail", nil}}},
		{line: 14, notRun: "needs another computer", commands: []command{{14, "capstan up", nil}}},
		{line: 20, anotherShell: true, serves: "http://127.0.0.1:1/",
			commands: []command{{20, "capstan up", []string{"✓ dock  0s", "ready"}}, {24, "capstan down", nil}}},
	}
	if got, err := blocks(page); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestBlocksRefuse(t *testing.T) {
	for page, want := range map[string]string{
		"```\nmake\n```":                             "doesn't say what is in the block",
		"```sh\nmake":                                "no end",
		"<!-- not run: no":                           "no end",
		"<!-- skip -->\n```sh\nmake\n```":            "is no mark",
		"<!-- not run: -->\n```sh\nmake\n```":        "is no mark",
		"<!-- not run: no -->\ntext\n":               "above text",
		"<!-- not run: no -->\n```yaml\na: b\n```\n": "without commands",
	} {
		if got, err := blocks(page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v; want an error with %q", page, got, err, want)
		}
	}
}
