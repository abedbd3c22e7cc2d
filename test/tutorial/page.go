package tutorial

import (
	"fmt"
	"regexp"
	"strings"
)

// block is the commands between two fences of the tutorial. Environment names what they need: the mark behind "sh".
type block struct {
	environment, commands string
}

var fences = regexp.MustCompile("(?ms)^```sh test=([a-z]+)\n(.*?)^```$")

// blocks returns the blocks of a page in their order. Pure.
func blocks(page string) (all []block) {
	for _, m := range fences.FindAllStringSubmatch(page, -1) {
		all = append(all, block{environment: m[1], commands: m[2]})
	}
	return all
}

// script returns what a shell runs for a block, and stops at the first command that fails. A block that starts a server
// keeps it running. Each command is printed before it runs. Pure.
func script(b block) string {
	lines := strings.TrimSpace(b.commands)
	if strings.HasPrefix(lines, "go run . --listen") {
		return fmt.Sprintf("set -ex\ncd \"$QUOTA\"\nexec %s\n", lines)
	}
	return fmt.Sprintf("set -ex\n%s\n", lines)
}

// placed returns the page with the project of the extension in a directory of the test. Pure.
func placed(page, directory string) string {
	return strings.ReplaceAll(page, "/tmp/quota", directory)
}
