package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/home"
	"github.com/capstan-dev/capstan/local"
)

// localBalancer gives clusters balancers of the dock.
type localBalancer struct{ dock *dock.Client }

func (b localBalancer) Ensure(ctx context.Context, cluster types.NamespacedName) (host string, port int32, err error) {
	balancer, err := b.dock.EnsureBalancer(ctx, relayName(cluster.Namespace, cluster.Name))
	if err == nil && balancer.Error != "" {
		err = errors.New(balancer.Error)
	}
	return balancer.Address, int32(balancer.Port), err
}

func (b localBalancer) SetBackends(ctx context.Context, cluster types.NamespacedName, backends []string) error {
	return b.dock.SetBackends(ctx, relayName(cluster.Namespace, cluster.Name), backends)
}

func (b localBalancer) Delete(ctx context.Context, cluster types.NamespacedName) error {
	name := relayName(cluster.Namespace, cluster.Name)
	return errors.Join(b.dock.DeleteBalancer(ctx, name), b.dock.DeleteRelay(ctx, name))
}

// localSupplier supplies hosts of the dock.
type localSupplier struct {
	dock *dock.Client
	bin  home.Binaries
}

// Versions are the bundles beside our binary: every local host sees them.
func (s localSupplier) Versions() []string { return s.bin.Bundles() }

func (s localSupplier) PowerOn(ctx context.Context, host string, agentConfig []byte) (address string, err error) {
	h, err := s.dock.EnsureHost(ctx, dock.HostSpec{
		Name:  host,
		Files: []dock.File{{Path: "/etc/capstan/agent.yaml", Mode: 0o600, Data: agentConfig}},
	})
	return h.Address, err
}

func (s localSupplier) Destroy(ctx context.Context, host string) error {
	return s.dock.DeleteHost(ctx, host)
}

func (s localSupplier) List(ctx context.Context) ([]string, error) {
	hosts, err := s.dock.ListHosts(ctx)
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names, err
}

// agentServer is where agents on local hosts reach the plane's API server.
func agentServer() string {
	return "https://" + net.JoinHostPort(dock.Gateway, strconv.Itoa(local.PlanePort))
}

// hookRetry bounds the wait of a hook that blocks: on one machine asking again is cheap, and hosts come free at any moment.
const hookRetry = 5 * time.Second
