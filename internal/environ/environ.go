// Package environ says what of this process's environment its children get. Programs take settings from there that no
// flag shows: etcd reads all of its configuration from ETCD_CONFIG_FILE, and a shell may hold the keys of a cloud.
package environ

import (
	"os"
	"slices"
	"strings"
)

// names are the variables that children get.
var names = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"}

// Child returns the environment for a child: who the user is, where programs and temporary files are, and nothing else.
func Child() []string { return pick(os.Environ()) }

// pick returns the variables with one of the names. Pure.
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

// proxies are the variables that say how to reach registries.
var proxies = []string{
	"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"DOCKER_CONFIG",
}

// Network returns the environment for a child that asks registries: that of [Child], and how the user reaches them.
func Network() []string {
	return append(Child(), pickOf(os.Environ(), proxies)...)
}
