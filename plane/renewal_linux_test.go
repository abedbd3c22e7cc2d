package plane_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/plane"
	"github.com/capstan-dev/capstan/plane/pki"
	"github.com/capstan-dev/capstan/test/long"
)

// TestCertificatesAreRenewedWithoutARestart runs a plane whose certificates live for half a minute, for more than two
// of their lifetimes. All clients work throughout, and no process is restarted.
func TestCertificatesAreRenewedWithoutARestart(t *testing.T) {
	long.Need(t)
	const life = 30 * time.Second
	t.Setenv("PLANE_LEAF_LIFETIME", life.String())
	dir := filepath.Join(t.TempDir(), "plane")
	r := start(t, dir)
	ctx := bounded(t)
	pids, shown := pidsOf(r), map[string]map[string]bool{}
	first, lasting := r.client(), rereading(r)
	for begin := time.Now(); time.Since(begin) < life*5/2; time.Sleep(time.Second) {
		// Use the current kubeconfig, and a client that was created at the start.
		if err := errors.Join(use(ctx, r.client()), useAgain(ctx, lasting)); err != nil {
			t.Fatalf("after %s: %v", time.Since(begin).Round(time.Second), err)
		}
		for name, port := range ports(r) {
			certificate, err := served(t, r, port)
			if err != nil {
				t.Fatalf("after %s, %s: %v", time.Since(begin).Round(time.Second), name, err)
			}
			if shown[name] == nil {
				shown[name] = map[string]bool{}
			}
			shown[name][certificate] = true
		}
	}
	for name, certificates := range shown {
		if len(certificates) < 3 {
			t.Errorf("%s presented %d certificates in over two lifetimes, want at least 3", name, len(certificates))
		}
	}
	if err := use(ctx, first); err == nil {
		t.Error("an expired certificate is still accepted, so this test proves nothing")
	}
	t.Run("the controllers work", func(t *testing.T) { checkTopology(t, ctx, lasting) })
	t.Run("kube-controller-manager works", func(t *testing.T) { checkDeletion(t, ctx, lasting) })
	if now := pidsOf(r); !maps.Equal(now, pids) {
		t.Errorf("the processes were %v and are %v", pids, now)
	}
	r.stop()
}

// rereading returns a client that reads the administrator's certificate again, as the plane's own processes do.
func rereading(r *running) client.Client {
	r.t.Helper()
	transport.CertCallbackRefreshDuration = time.Second
	keys, err := pki.Load(pki.Directory{Path: filepath.Join(r.dir, "pki")})
	if err != nil {
		r.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(r.config())
	config.QPS, config.CertFile, config.KeyFile = -1, keys.Admin.CertFile, keys.Admin.KeyFile
	c, err := client.New(config, client.Options{Scheme: r.client().Scheme()})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// use reads, writes, and calls a webhook.
func use(ctx context.Context, c client.Client) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "use-"}}
	return errors.Join(
		c.Create(ctx, object), c.Get(ctx, client.ObjectKeyFromObject(object), object),
		c.Create(ctx, topology("use", "v1.36.3"), client.DryRunAll),
	)
}

// useAgain is like use, for a client that reads its certificate again. client-go closes connections with the previous
// certificate even during a request (transport/cert_rotation.go), so useAgain repeats such a request, as every
// controller does.
func useAgain(ctx context.Context, c client.Client) error {
	err := use(ctx, c)
	if err != nil && strings.Contains(err.Error(), net.ErrClosed.Error()) {
		err = use(ctx, c)
	}
	return err
}

// pidsOf returns the processes of a plane, and how often each was restarted.
func pidsOf(r *running) map[string]string {
	pids := map[string]string{}
	for _, c := range r.state().Components {
		pids[c.Name] = fmt.Sprintf("%d, started again %d times", c.Pid, c.Restarts)
	}
	return pids
}

// ports returns the ports of servers with certificates.
func ports(r *running) map[string]int {
	r.t.Helper()
	used, err := plane.ReadPorts(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return map[string]int{"the API server": used.APIServer, "etcd": used.Etcd, "the webhooks": used.Webhook}
}

// served returns the certificate that a server presents, which must be valid now.
func served(t *testing.T, r *running, port int) (string, error) {
	t.Helper()
	keys, err := pki.Load(pki.Directory{Path: filepath.Join(r.dir, "pki")})
	if err != nil {
		return "", err
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{InsecureSkipVerify: true}}
	dialer.Config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return keys.Admin.Current()
	}
	conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if now := time.Now(); now.After(leaf.NotAfter) {
		return "", fmt.Errorf("the certificate expired at %s, and the time is %s", leaf.NotAfter, now)
	}
	return leaf.SerialNumber.String(), nil
}
