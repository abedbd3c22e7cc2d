//go:build linux

package routes_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/capstan-dev/capstan/kube/internal/hosttest"
	"github.com/capstan-dev/capstan/kube/network"
	"github.com/capstan-dev/capstan/kube/network/nettest"
	"github.com/capstan-dev/capstan/kube/network/table"
)

// withPort creates a pod that answers at port 8080. Port 9000 of its host leads there.
func (h *host) withPort(name string) *pod {
	h.t.Helper()
	p := &pod{Space: nettest.New(h.t)}
	h.Do(func() error {
		addresses, err := h.net.Add(fmt.Sprintf("%x", name+"..........."), p.Path(), []network.HostPort{
			{Protocol: table.TCP, Port: 9000, Pod: 8080}, {Protocol: table.UDP, Port: 9000, Pod: 8080},
		})
		if err == nil {
			p.v4, p.v6 = addresses[0], addresses[1]
		}
		return err
	})
	p.Serve(8080, name)
	return p
}

// A hostPort answers everybody who reaches the host: other Nodes, their pods, hosts of other clusters, and the host
// itself.
func TestAHostPortAnswersEverybody(t *testing.T) {
	hosttest.Need(t)
	dock := nettest.NewDock(t)
	one, two, foreign := newHost(t, dock, 1, 1), newHost(t, dock, 1, 2), newHost(t, dock, 2, 1)
	two.Do(func() error { // as in some distributions
		return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("2"), 0)
	})
	know(one, two)
	one.withPort("web")
	far, near := two.pod("far"), one.pod("near")
	to := at(one.node.Address, 9000)
	two.Hears(to, "web saw "+two.node.Address.String())
	foreign.Hears(to, "web saw "+foreign.node.Address.String())
	dock.Hears(to, "web saw "+nettest.Gateway.String())
	far.Hears(to, "web saw "+far.v4.String())
	near.Hears(to, "web saw "+near.v4.String())
	one.Hears(to, "web saw "+one.node.Address.String())
}
