package podless

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lifetime is the lifetime of a certificate. Nothing renews it; an upgrade of the provider creates a new one.
const lifetime = 10 * 365 * 24 * time.Hour

// certify returns the Secret that cert-manager would create for a Certificate, and records its CA.
func (r *rewriter) certify(c *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	secret, _, _ := unstructured.NestedString(c.Object, "spec", "secretName")
	hosts, _, _ := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
	if ca, _, _ := unstructured.NestedBool(c.Object, "spec", "isCA"); ca {
		return nil, fmt.Errorf("its Certificate %s is a certificate authority, which only cert-manager can issue", name(c))
	}
	if secret == "" {
		return nil, fmt.Errorf("its Certificate %s names no Secret", name(c))
	}
	authority, certificate, key, err := issue(hosts)
	if err != nil {
		return nil, fmt.Errorf("making the certificate for %s: %w", name(c), err)
	}
	data := map[string]any{}
	for file, text := range map[string][]byte{"ca.crt": authority, "tls.crt": certificate, "tls.key": key} {
		data[file] = base64.StdEncoding.EncodeToString(text)
	}
	o := &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data},
	}
	o.SetNamespace(c.GetNamespace())
	o.SetName(secret)
	o.SetLabels(c.GetLabels()) // clusterctl finds the Secret by its labels when it deletes the provider
	r.authorities[name(c)], r.authorities["secret/"+name(o)] = authority, authority
	r.secrets[secret] = true
	return o, nil
}

// issue creates a CA and the only certificate that the CA ever signs. The certificate is valid for servers at
// 127.0.0.1, localhost and these host names. issue discards the CA's key. All results are PEM.
func issue(hosts []string) (authority, certificate, key []byte, err error) {
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "capstan-provider"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	leaf := &x509.Certificate{
		Subject: pkix.Name{CommonName: "provider"}, DNSNames: append([]string{"localhost"}, hosts...),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	leafKey, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, nil, err
	}
	for _, t := range []*x509.Certificate{ca, leaf} {
		if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
			return nil, nil, nil, err
		}
		t.NotBefore = time.Now().Add(-time.Hour) // allow for clock skew
		t.NotAfter = t.NotBefore.Add(lifetime)
	}
	caDER, err1 := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	leafDER, err2 := x509.CreateCertificate(rand.Reader, leaf, ca, &leafKey.PublicKey, caKey)
	keyDER, err3 := x509.MarshalPKCS8PrivateKey(leafKey)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, nil, nil, err
	}
	return encode("CERTIFICATE", caDER), encode("CERTIFICATE", leafDER), encode("PRIVATE KEY", keyDER), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
