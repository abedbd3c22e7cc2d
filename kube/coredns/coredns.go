//go:build !k8s134

// Package coredns is CoreDNS as an applet of the bundle: upstream's own, of the release that kubeadm installs, with
// the plugins that need no library of their own.
//
// Left out are the plugins that ask a cloud's DNS (azure, clouddns, route53, nomad), dnssec and sign, geoip, trace,
// and view. A Corefile that names one is refused by CoreDNS ("Unknown directive").
package coredns

import (
	"flag"
	"os"
	"slices"

	_ "github.com/coredns/caddy/onevent"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/any"
	_ "github.com/coredns/coredns/plugin/auto"
	_ "github.com/coredns/coredns/plugin/autopath"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/bufsize"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/cancel"
	_ "github.com/coredns/coredns/plugin/chaos"
	_ "github.com/coredns/coredns/plugin/debug"
	_ "github.com/coredns/coredns/plugin/dns64"
	_ "github.com/coredns/coredns/plugin/dnstap"
	_ "github.com/coredns/coredns/plugin/erratic"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/etcd"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/grpc"
	_ "github.com/coredns/coredns/plugin/header"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/k8s_external"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/local"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/minimal"
	_ "github.com/coredns/coredns/plugin/multisocket"
	_ "github.com/coredns/coredns/plugin/nsid"
	_ "github.com/coredns/coredns/plugin/pprof"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/root"
	_ "github.com/coredns/coredns/plugin/secondary"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/timeouts"
	_ "github.com/coredns/coredns/plugin/tls"
	_ "github.com/coredns/coredns/plugin/transfer"
	_ "github.com/coredns/coredns/plugin/tsig"
	_ "github.com/coredns/coredns/plugin/whoami"
)

// Version is CoreDNS's own, such as 1.14.2.
const Version = coremain.CoreVersion

// names are the flags that CoreDNS defines for whatever program it is linked into.
var names = []string{"conf", "plugins", "pidfile", "version", "quiet", "dns.port", "p"}

// flags are CoreDNS's own.
var flags = takeFlags()

// takeFlags takes CoreDNS's flags out of the program's, where they would become flags of other applets.
func takeFlags() *flag.FlagSet {
	own := flag.NewFlagSet("coredns", flag.ExitOnError)
	others := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	flag.VisitAll(func(f *flag.Flag) {
		if slices.Contains(names, f.Name) {
			own.Var(f.Value, f.Name, f.Usage)
		} else {
			others.Var(f.Value, f.Name, f.Usage)
		}
	})
	flag.CommandLine = others
	return own
}

// Main runs CoreDNS with the arguments in os.Args. It doesn't return before CoreDNS is stopped.
func Main() {
	flag.CommandLine = flags
	coremain.Run()
}
