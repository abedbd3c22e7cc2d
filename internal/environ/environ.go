// Package environ selects the environment variables that child processes get. Programs also read settings from the
// environment, and their flags don't show these settings: etcd takes its whole configuration from the file that
// ETCD_CONFIG_FILE names. In addition, the environment of a shell may contain cloud credentials.
package environ

import (
	"os"
	"slices"
	"strings"
)

// names are the variables that children get.
var names = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"}

// Child returns the environment for a child: who the user is, and where programs and temporary files are.
func Child() []string { return pick(os.Environ()) }

// pick returns the variables with one of the names.
func pick(all []string) []string { return pickOf(all, names) }

func pickOf(all, names []string) []string {
	picked := []string{}
	for _, v := range all {
		if name, _, ok := strings.Cut(v, "="); ok && slices.Contains(names, name) {
			picked = append(picked, v)
		}
	}
	return picked
}

// proxies are the variables for access to registries.
var proxies = []string{
	"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"DOCKER_CONFIG",
}

// Network returns the environment for a child that accesses registries: that of [Child] and the user's proxy settings.
func Network() []string {
	return append(Child(), pickOf(os.Environ(), proxies)...)
}
