package local

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
)

const (
	// EnrolPort is the port of the plane's enrolment server on the dock's loopback interface.
	EnrolPort = PlanePort + 1
	// publishedServer and publishedEnrolment are the dock's names for the two addresses that other computers reach.
	publishedServer, publishedEnrolment = "listen", "listen-enrolment"
	// maxNames is the maximum number of names in the certificate.
	maxNames = 16
)

// Listen says where other computers reach a plane: the API server at an address and port of this machine, and the
// enrolment server at the next port. The zero value means nowhere.
type Listen struct {
	// Address is the address of the API server, as ADDRESS:PORT. Empty: nowhere.
	Address string `json:"address,omitempty"`
	// Names are additional names and addresses in the serving certificate. Other computers use the first one if Address
	// means all interfaces.
	Names []string `json:"names,omitempty"`
}

// Everybody reports whether other computers reach the plane at all.
func (l Listen) Everybody() bool { return l.Address != "" }

// Server returns the URL at which other computers reach the API server; empty if they can't.
func (l Listen) Server() string { return l.url(0) }

// Enrolment returns the URL of the enrolment server; empty if other computers can't reach it.
func (l Listen) Enrolment() string { return l.url(1) }

func (l Listen) url(offset uint16) string {
	at, err := netip.ParseAddrPort(l.Address)
	if err != nil {
		return ""
	}
	host := at.Addr().String()
	if at.Addr().IsUnspecified() {
		if len(l.Names) == 0 {
			return ""
		}
		host = l.Names[0]
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(int(at.Port()+offset)))
}

// CertificateHosts returns the names and addresses that the serving certificate must contain.
func (l Listen) CertificateHosts() []string {
	at, err := netip.ParseAddrPort(l.Address)
	if err != nil {
		return nil
	}
	if at.Addr().IsUnspecified() {
		return l.Names
	}
	return append([]string{at.Addr().String()}, l.Names...)
}

// ParseListen parses ADDRESS or ADDRESS:PORT. An empty text or a loopback address means nowhere. The default port is
// the one that the plane uses inside the dock.
func ParseListen(text string, names []string) (Listen, error) {
	const advice = "name an address of this machine, for example: capstan up --listen 192.0.2.1"
	if text == "" || text == "localhost" {
		return Listen{}, nil
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		address, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			return Listen{}, hint.Errorf(advice+" (names belong to --tls-san)", "%q is not an address", text)
		}
		at = netip.AddrPortFrom(address, PlanePort)
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	switch {
	case at.Addr().IsLoopback():
		return Listen{}, nil
	case at.Addr().Zone() != "" || at.Addr().IsMulticast():
		return Listen{}, hint.Errorf(advice, "hosts can't use the address %s", at.Addr())
	case at.Port() == 0 || at.Port() == 65535:
		return Listen{}, hint.Errorf("hosts enroll at the port after it: choose one between 1 and 65534",
			"the port can't be %d", at.Port())
	case at.Addr().IsUnspecified() && len(names) == 0:
		return Listen{}, hint.Errorf("name what hosts connect to: --tls-san plane.example.com, or listen on one address",
			"%s means all addresses of this machine: hosts need a specific one", at.Addr())
	case len(names) > maxNames:
		return Listen{}, hint.Errorf("leave some out", "%d names are too many: at most %d", len(names), maxNames)
	}
	for _, name := range names {
		if _, err := netip.ParseAddr(name); err != nil && len(validation.IsDNS1123Subdomain(name)) > 0 {
			return Listen{}, hint.Errorf("for example: --tls-san plane.example.com,198.51.100.7",
				"%q is neither a DNS name nor an address", name)
		}
	}
	return Listen{Address: at.String(), Names: slices.Clone(names)}, nil
}

// wantedListen applies the options to the choice of the last start. Nil options keep it.
func (o UpOptions) wantedListen(kept Listen) (Listen, error) {
	if o.Listen == nil && o.Names == nil {
		return kept, nil
	}
	address, names := kept.Address, kept.Names
	if o.Listen != nil {
		address = *o.Listen
	}
	if o.Names != nil {
		names = o.Names
	}
	l, err := ParseListen(address, names)
	if err == nil && o.Listen != nil {
		err = l.here()
	}
	if err == nil && !l.Everybody() && len(o.Names) > 0 {
		return l, hint.Errorf("add --listen ADDRESS", "--tls-san has no effect while only this machine reaches the plane")
	}
	return l, err
}

// The method here returns an error if this machine does not have the address. The machine might get the address later.
// But when the user has just chosen the address, a typo is more likely.
func (l Listen) here() error {
	at, err := netip.ParseAddrPort(l.Address)
	if err != nil || at.Addr().IsUnspecified() {
		return nil
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	var have []string
	for _, one := range all {
		prefix, err := netip.ParsePrefix(one.String())
		if err != nil || prefix.Addr().IsLoopback() || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		if prefix.Addr() == at.Addr() {
			return nil
		}
		have = append(have, prefix.Addr().String())
	}
	return hint.Errorf("choose one that it has: "+strings.Join(have, ", "), "this machine does not have the address %s",
		at.Addr())
}

// publish makes the plane reachable where l says, and nowhere else. If fresh is set, an address that does not work is
// an error. An address from an earlier start is retried instead, because the machine may be in another network now.
func publish(ctx context.Context, docked *dock.Client, l Listen, fresh bool, p Progress) error {
	if !l.Everybody() {
		for _, name := range []string{publishedServer, publishedEnrolment} {
			if err := docked.DeleteRelay(ctx, name); err != nil {
				return explainDock(err)
			}
		}
		return nil
	}
	at, err := netip.ParseAddrPort(l.Address)
	if err != nil {
		return hint.Errorf("choose another one: capstan up --listen ADDRESS", "listening at %s: %w", l.Address, err)
	}
	for name, what := range map[string]dock.Publication{
		publishedServer: {Address: at.String(), Target: loopback(PlanePort)},
		publishedEnrolment: {
			Address: netip.AddrPortFrom(at.Addr(), at.Port()+1).String(), Target: loopback(EnrolPort), Announce: true,
		},
	} {
		relay, err := docked.Publish(ctx, name, what)
		if dock.CodeOf(err) == dock.CodeNotFound {
			return hint.Errorf(
				"restart it: capstan down, then capstan up",
				"the running dock is of an earlier version",
			)
		}
		if err != nil {
			return explainDock(err)
		}
		if relay.Error == "" {
			continue
		}
		if fresh {
			return hint.Errorf("choose another address, or remove it: capstan up --listen ''", "%s", relay.Error)
		}
		p.note("Other computers can't reach the plane: " + relay.Error + "; Capstan keeps retrying.")
	}
	return nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
