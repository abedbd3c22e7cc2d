package local

import (
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/hint"
)

func TestParseListen(t *testing.T) {
	for name, c := range map[string]struct {
		text              string
		names             []string
		want              string
		server, enrolment string
		certificate       []string
	}{
		"no address":                          {},
		"loopback is nowhere":                 {text: "127.0.0.1"},
		"another loopback address is nowhere": {text: "127.3.2.1:6443", names: []string{"x"}},
		"loopback of IPv6":                    {text: "::1"},
		"localhost":                           {text: "localhost"},
		"IPv4 in the form of IPv6":            {text: "::ffff:127.0.0.1"},
		"an address": {
			text: "192.0.2.1", want: "192.0.2.1:7443", server: "https://192.0.2.1:7443",
			enrolment: "https://192.0.2.1:7444", certificate: []string{"192.0.2.1"},
		},
		"an address and a port": {
			text: "192.0.2.1:6443", want: "192.0.2.1:6443", server: "https://192.0.2.1:6443",
			enrolment: "https://192.0.2.1:6444", certificate: []string{"192.0.2.1"},
		},
		"IPv6": {
			text: "2001:db8::1", want: "[2001:db8::1]:7443", server: "https://[2001:db8::1]:7443",
			enrolment: "https://[2001:db8::1]:7444", certificate: []string{"2001:db8::1"},
		},
		"IPv6 in brackets": {
			text: "[2001:db8::1]", want: "[2001:db8::1]:7443", server: "https://[2001:db8::1]:7443",
			enrolment: "https://[2001:db8::1]:7444", certificate: []string{"2001:db8::1"},
		},
		"an address and a name": {
			text: "192.0.2.1", names: []string{"plane.example"}, want: "192.0.2.1:7443",
			server: "https://192.0.2.1:7443", enrolment: "https://192.0.2.1:7444",
			certificate: []string{"192.0.2.1", "plane.example"},
		},
		"all addresses, with a name": {
			text: "0.0.0.0", names: []string{"plane.example", "192.0.2.1"}, want: "0.0.0.0:7443",
			server: "https://plane.example:7443", enrolment: "https://plane.example:7444",
			certificate: []string{"plane.example", "192.0.2.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseListen(c.text, c.names)
			if err != nil || got.Address != c.want || got.Everybody() != (c.want != "") {
				t.Fatalf("got %+v, %v, want %q", got, err, c.want)
			}
			if got.Server() != c.server || got.Enrolment() != c.enrolment {
				t.Errorf("URLs %q and %q, want %q and %q", got.Server(), got.Enrolment(), c.server, c.enrolment)
			}
			if hosts := got.CertificateHosts(); !slices.Equal(hosts, c.certificate) {
				t.Errorf("the certificate names %q, want %q", hosts, c.certificate)
			}
		})
	}
}

func TestParseListenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		names []string
		want  string
	}{
		"a name":                       {"plane.example", nil, "not an address"},
		"all addresses without a name": {"0.0.0.0", nil, "hosts need a specific one"},
		"no port for the enrolment":    {"192.0.2.1:65535", nil, "the port can't be 65535"},
		"port 0":                       {"192.0.2.1:0", nil, "the port can't be 0"},
		"an address of one link":       {"fe80::1%eth0", nil, "can't use"},
		"multicast":                    {"224.0.0.1", nil, "can't use"},
		"an invalid name":              {"192.0.2.1", []string{"a b"}, "neither a DNS name"},
		"a wildcard":                   {"192.0.2.1", []string{"*"}, "neither a DNS name"},
		"many names":                   {"192.0.2.1", slices.Repeat([]string{"a"}, maxNames+1), "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			if l, err := ParseListen(c.text, c.names); err == nil || !strings.Contains(err.Error(), c.want) ||
				hint.Of(err) == "" {
				t.Errorf("got %+v, %v with the hint %q, want %q", l, err, hint.Of(err), c.want)
			}
		})
	}
}

func TestWantedListen(t *testing.T) {
	own := ownAddress(t)
	kept := Listen{Address: "192.0.2.99:7443", Names: []string{"a.example"}}
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		options UpOptions
		kept    Listen
		want    Listen
		fails   bool
	}{
		"no options keep the last choice": {UpOptions{}, kept, kept, false},
		"no options and no last choice":   {UpOptions{}, Listen{}, Listen{}, false},
		"another address keeps the names": {UpOptions{Listen: text(own)}, kept,
			Listen{Address: own + ":7443", Names: kept.Names}, false},
		"other names keep the address": {UpOptions{Names: []string{"b.example"}}, kept,
			Listen{Address: kept.Address, Names: []string{"b.example"}}, false},
		"an empty list removes the names": {UpOptions{Names: []string{}}, kept, Listen{Address: kept.Address}, false},
		"an empty address removes all":    {UpOptions{Listen: text("")}, kept, Listen{}, false},
		"a loopback address removes all":  {UpOptions{Listen: text("127.0.0.1")}, kept, Listen{}, false},
		"an address of another machine":   {UpOptions{Listen: text("203.0.113.77")}, kept, Listen{}, true},
		"names without an address":        {UpOptions{Names: []string{"b.example"}}, Listen{}, Listen{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.options.wantedListen(c.kept)
			if (err != nil) != c.fails || !c.fails && !reflect.DeepEqual(
				Listen{
					got.Address,
					append([]string{}, got.Names...),
				},
				Listen{c.want.Address, append([]string{}, c.want.Names...)},
			) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

// ownAddress returns an address of this machine that is not of its loopback interface.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr().String()
		}
	}
	t.Skip("this machine has no network")
	return ""
}
