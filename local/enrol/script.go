package enrol

import (
	_ "embed"
	"strings"
)

//go:embed install.sh
var installScript string

// script returns the script that installs the agent and enrolls with it. All that it fetches is known to it by its
// checksum, so who has compared the script's own can run it. The values have no quotes: they are a URL, hashes and a
// version. Pure.
func script(url, hash, version string, checksums map[string]string) []byte {
	return []byte(strings.NewReplacer("@URL@", plain(url), "@HASH@", plain(hash), "@VERSION@", plain(version),
		"@AMD64@", plain(checksums["amd64"]), "@ARM64@", plain(checksums["arm64"])).Replace(installScript))
}

// plain drops what could end a text in quotes or a comment.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '\'' || r == '@' || r > '~' {
			return -1
		}
		return r
	}, text)
}
