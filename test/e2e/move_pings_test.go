package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// pings checks repeatedly whether a cluster answers.
type pings struct {
	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	worst map[string]time.Duration // the longest time between two answers, by what is requested
	last  map[string]time.Time
	lost  map[string]int
}

// client returns a client of a cluster's API server, with the credentials that a plane has, and the server's URL. The
// endpoint of the cluster exists only in the docks, and no plane creates a relay to it.
func (y *yard) client(t *testing.T, plane own, cluster string) (client *http.Client, server string) {
	t.Helper()
	text := plane.must(t, "kubectl", "get", "secret", "-n", fleet, cluster+"-kubeconfig", "-o", "jsonpath={.data.value}")
	kubeconfig, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(config.CAData)
	client = &http.Client{Timeout: pingTimeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{certificate}},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", y.socket)
		},
	}}
	t.Cleanup(client.CloseIdleConnections)
	return client, config.Host
}

// ping sends requests to the API server of a cluster, and through it to the kubelets of its nodes, several times a
// second until the method rest is called.
func (y *yard) ping(t *testing.T, plane own, cluster string, nodes []string) *pings {
	t.Helper()
	client, server := y.client(t, plane, cluster)
	p := &pings{
		stop: make(chan struct{}), worst: map[string]time.Duration{}, last: map[string]time.Time{}, lost: map[string]int{},
	}
	paths := []string{"/readyz"}
	for _, n := range nodes {
		node, _, _ := strings.Cut(n, " ")
		paths = append(paths, "/api/v1/nodes/"+node+"/proxy/healthz")
	}
	for _, path := range paths {
		p.last[path] = time.Now()
		p.done.Go(func() { p.ask(client, server, path) })
	}
	t.Cleanup(func() { p.end() })
	return p
}

// ask repeats one request.
func (p *pings) ask(client *http.Client, server, path string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		ok := false
		if response, err := client.Get(server + path); err == nil {
			body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
			response.Body.Close()
			ok = err == nil && response.StatusCode == http.StatusOK && bytes.Equal(body, []byte("ok"))
		}
		p.mu.Lock()
		if ok {
			p.worst[path], p.last[path] = max(p.worst[path], time.Since(p.last[path])), time.Now()
		} else {
			p.lost[path]++
		}
		p.mu.Unlock()
	}
}

func (p *pings) end() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.done.Wait()
}

// rest stops the requests, and fails the test if something did not answer for too long.
func (p *pings) rest(t *testing.T) {
	t.Helper()
	p.end()
	for path, last := range p.last {
		worst := max(p.worst[path], time.Since(last))
		t.Logf("%s: the longest time between two answers was %s, %d questions were not answered", path,
			worst.Round(time.Millisecond), p.lost[path])
		if worst > leaderChange {
			t.Errorf("%s did not answer for %s", path, worst)
		}
	}
}
