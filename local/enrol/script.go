package enrol

import (
	_ "embed"
	"strings"
)

//go:embed install.sh
var installScript string

// script returns the script that installs the agent and enrolls with it. The script contains the checksums of
// everything that it downloads, so anybody who has verified the script's own checksum can safely run the script. The
// values contain no quotes: they are a URL, hashes and a version. Pure.
func script(url, hash, version string, checksums map[string]string) []byte {
	return []byte(strings.NewReplacer("@URL@", plain(url), "@HASH@", plain(hash), "@VERSION@", plain(version),
		"@AMD64@", plain(checksums["amd64"]), "@ARM64@", plain(checksums["arm64"])).Replace(installScript))
}

// plain drops characters that could end a quoted string or a comment.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '\'' || r == '@' || r > '~' {
			return -1
		}
		return r
	}, text)
}
