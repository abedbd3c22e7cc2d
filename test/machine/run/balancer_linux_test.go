package run

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// endpointAddress is the address of the balancer: the endpoint of a cluster whose control plane moves between hosts.
const endpointAddress = "192.0.2.3"

// balancer forwards connections to the machines whose API server is ready, like a user's own balancer.
type balancer struct {
	mu    sync.Mutex
	ready []string
	next  int
}

// balance listens at the endpoint until the test ends.
func (w *world) balance() {
	w.Helper()
	listener, err := w.lan.Listen(endpointAddress, 6443)
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, m := range w.machines {
		all = append(all, net.JoinHostPort(m.Address, "6443"))
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &balancer{}
	var running sync.WaitGroup
	running.Go(func() { b.watch(ctx, all) })
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.forward(ctx, conn) })
		}
	})
	w.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
}

// watch repeatedly checks all API servers.
func (b *balancer) watch(ctx context.Context, all []string) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, // it only checks readiness
	}}
	for ctx.Err() == nil {
		var ready []string
		for _, address := range all {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", nil)
			if err != nil {
				continue
			}
			if response, err := client.Do(request); err == nil {
				_ = response.Body.Close()
				if response.StatusCode == http.StatusOK {
					ready = append(ready, address)
				}
			}
		}
		b.mu.Lock()
		b.ready = ready
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// pick returns the ready API servers, starting with a different one each time.
func (b *balancer) pick() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ready) == 0 {
		return nil
	}
	b.next = (b.next + 1) % len(b.ready)
	return slices.Concat(b.ready[b.next:], b.ready[:b.next])
}

// forward copies in both directions until one side closes or the test ends.
func (b *balancer) forward(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	for _, address := range b.pick() {
		server, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		defer server.Close()
		ended := make(chan struct{}, 2)
		for _, pair := range [][2]net.Conn{{conn, server}, {server, conn}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				ended <- struct{}{}
			}()
		}
		select {
		case <-ctx.Done():
		case <-ended:
		}
		return
	}
}
