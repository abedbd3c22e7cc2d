package backup

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authority makes a CA in PEM form.
func authority(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// We accept only a member whose certificate is for localhost and signed by the cluster's etcd authority. The same
// authority signs our certificate.
func TestMembersAreVerified(t *testing.T) {
	ca, key := authority(t)
	otherCA, otherKey := authority(t)
	ours, err := etcdTLS(ca, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ca, key []byte
		host    string
		ok      bool
	}{
		"a member":                           {ca, key, "localhost", true},
		"a certificate of another authority": {otherCA, otherKey, "localhost", false},
		"a certificate for another name":     {ca, key, "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := tls.X509KeyPair(c.ca, c.key)
			if err != nil {
				t.Fatal(err)
			}
			own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
				SerialNumber: big.NewInt(2), DNSNames: []string{c.host}, NotBefore: time.Now().Add(-time.Hour),
				NotAfter: time.Now().Add(time.Hour),
			}, pair.Leaf, &own.PublicKey, pair.PrivateKey)
			if err != nil {
				t.Fatal(err)
			}
			clients := x509.NewCertPool()
			clients.AppendCertsFromPEM(ca)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				far, err := listener.Accept()
				if err != nil {
					ended <- err
					return
				}
				defer far.Close()
				ended <- tls.Server(far, &tls.Config{
					Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}},
					ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: clients,
				}).HandshakeContext(ctx)
			}()
			near, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			if err := tls.Client(near, ours).HandshakeContext(ctx); (err == nil) != c.ok {
				t.Errorf("handshake: %v", err)
			}
			if err := <-ended; c.ok && err != nil {
				t.Errorf("the member refuses our certificate: %v", err)
			}
		})
	}
}

// secretsByName has Secrets of namespace default.
type secretsByName map[string]*corev1.Secret

func (s secretsByName) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	secret, there := s[key.Name]
	if !there || key.Namespace != "default" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	secret.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (secretsByName) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("Secrets are not listed")
}

// The missing Secrets of a cluster show what kind of cluster it is.
func TestReadAccess(t *testing.T) {
	ca, key := authority(t)
	kubeconfig := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:6443"}}],"users":[{"name":"u","user":{"token":"t"}}]}`
	for name, c := range map[string]struct {
		change func(secretsByName)
		want   error
	}{
		"all Secrets are there":       {func(secretsByName) {}, nil},
		"no Secret at all":            {func(s secretsByName) { clear(s) }, ErrNotInitialized},
		"no kubeconfig yet":           {func(s secretsByName) { delete(s, "blue-kubeconfig") }, ErrNotInitialized},
		"an authority is missing":     {func(s secretsByName) { delete(s, "blue-proxy") }, ErrNoAuthority},
		"etcd's authority is missing": {func(s secretsByName) { delete(s, "blue-etcd") }, ErrNoAuthority},
		"etcd's authority has no key": {func(s secretsByName) { delete(s["blue-etcd"].Data, "tls.key") }, ErrElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			all := secretsByName{"blue-kubeconfig": {Data: map[string][]byte{"value": []byte(kubeconfig)}}}
			for _, purpose := range authorities {
				all["blue-"+purpose] = &corev1.Secret{Data: map[string][]byte{"tls.crt": ca, "tls.key": key}}
			}
			c.change(all)
			access, err := ReadAccess(t.Context(), all, "default", "blue")
			if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err == nil && (len(access.Fingerprints) != len(authorities) || access.etcd == nil ||
				access.Config.Host != "https://127.0.0.1:6443") {
				t.Errorf("got %+v", access)
			}
		})
	}
}
