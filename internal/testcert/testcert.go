// Package testcert creates certificates for tests, with new keys and an hour of validity.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Pair is a certificate and its key.
type Pair struct {
	*x509.Certificate
	// Key is the private key.
	Key *ecdsa.PrivateKey
}

// Authority returns a new certificate authority.
func Authority(t testing.TB) Pair {
	t.Helper()
	return Sign(t, Pair{}, &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		Subject: pkix.Name{CommonName: "ca"},
	})
}

// Sign returns a new certificate that signer has signed. If signer is the zero Pair, the certificate is self-signed.
// Its serial number is 1, and it is valid for an hour unless the template says otherwise.
func Sign(t testing.TB, signer Pair, template *x509.Certificate) Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	if signer.Key == nil {
		signer = Pair{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.Certificate, &key.PublicKey, signer.Key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{certificate, key}
}

// Server returns a new certificate for a server at an address, and the CA that signed it.
func Server(t testing.TB, address net.IP) (leaf, authority Pair) {
	t.Helper()
	authority = Authority(t)
	return Sign(t, authority, &x509.Certificate{
		IPAddresses: []net.IP{address}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}), authority
}

// PEM returns the certificate in PEM form.
func (p Pair) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Raw})
}

// TLS returns the certificate for a TLS handshake, followed by the certificates of its signers.
func (p Pair) TLS(by ...Pair) tls.Certificate {
	chain := tls.Certificate{Certificate: [][]byte{p.Raw}, PrivateKey: p.Key}
	for _, more := range by {
		chain.Certificate = append(chain.Certificate, more.Raw)
	}
	return chain
}
