package extensionconfig_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/capstan-dev/capstan/runtime/certificate"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// An extension without cert-manager: it issues its own certificate in a Secret, and the ExtensionConfig takes the
// authorities from there. When a new authority takes over, calls still succeed (RC-09).
func TestOwnCertificate(t *testing.T) {
	w := newWorld(t, nil)
	w.start(nil)
	secret := types.NamespacedName{Namespace: "default", Name: "own-cert"}
	keep := func(daysAgo int, hosts ...string) *certificate.Keeper {
		t.Helper()
		const day = 24 * time.Hour
		keeper, err := certificate.New(t.Context(), certificate.InSecret(w.admin, secret), certificate.Options{
			Hosts: append(hosts, "127.0.0.1"), Lifetime: 100 * day, AuthorityLifetime: 330 * day, Overlap: 2 * day,
			Now: func() time.Time { return time.Now().Add(-time.Duration(daysAgo) * day) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return keeper
	}
	var current atomic.Pointer[certificate.Keeper]
	keep(230)              // an authority that has lived for two thirds of its lifetime
	current.Store(keep(5)) // five days ago, a new one was published, which is too young to sign
	extension, err := server.New(server.Options{}, server.Handle(hook.BeforeClusterCreate, "gate",
		func(_ context.Context, _ *runtimehooksv1.BeforeClusterCreateRequest,
			response *runtimehooksv1.BeforeClusterCreateResponse) error {
			response.Message = "gate"
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	address, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, server.TLS{Address: "127.0.0.1:0", Ready: func(a net.Addr) { address <- a },
			GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				return current.Load().GetCertificate(hello)
			},
		}, extension)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.create("own", "https://"+(<-address).String(), func(c *runtimev1.ExtensionConfig) {
		key, value := certificate.Annotation(secret)
		c.Spec.ClientConfig.CABundle, c.Annotations = nil, map[string]string{key: value}
	})
	w.condition("own", "Discovered", "True", "")
	w.answers("gate")
	before, err := current.Load().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}

	// another name requires another certificate, which the new authority now signs
	current.Store(keep(0, "another.example.org"))
	after, err := current.Load().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	if before.Leaf.Issuer.String() == after.Leaf.Issuer.String() {
		t.Fatalf("both certificates are of %s", after.Leaf.Issuer)
	}
	w.calls.Close() // new connections
	w.answers("gate")
	if got := w.get("own").Spec.ClientConfig.CABundle; string(got) != string(current.Load().Authorities()) {
		t.Errorf("caBundle is %q", got)
	}
	t.Attr("rule", "RC-09")
}
