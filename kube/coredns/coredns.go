//go:build !k8s134

// Package coredns is CoreDNS as an applet of the bundle: upstream's own code of the release that kubeadm installs, with
// the plugins that need no further library.
//
// It omits the plugins for cloud DNS services (azure, clouddns, route53, nomad), dnssec and sign, geoip, trace, and
// view. CoreDNS refuses a Corefile that names one of them ("Unknown directive").
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

// Version is the version of CoreDNS, such as 1.14.2.
const Version = coremain.CoreVersion

// names are the flags that CoreDNS defines in every program that links it.
var names = []string{"conf", "plugins", "pidfile", "version", "quiet", "dns.port", "p"}

// flags are the flags of CoreDNS.
var flags = takeFlags()

// takeFlags removes CoreDNS's flags from the program's, so that other applets don't get them.
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

// Main runs CoreDNS with the arguments in os.Args until CoreDNS is stopped.
func Main() {
	flag.CommandLine = flags
	coremain.Run()
}
