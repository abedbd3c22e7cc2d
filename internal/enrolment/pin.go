package enrolment

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var pinText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Pin returns the hash of a certificate's public key, "sha256:" and hex digits, in kubeadm's format for a CA.
func Pin(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// CheckPin fails unless text has the form of a pin.
func CheckPin(text string) error {
	if !pinText.MatchString(text) {
		return errors.New("the hash of the authority must be sha256: and 64 characters in hex")
	}
	return nil
}

// ErrPin is wrapped by the handshake error for a server that is not the plane.
var ErrPin = errors.New("the server is not the plane with this hash: nothing was sent to it. Somebody may be " +
	"intercepting the connection; check that the address is the plane's, and make another credential")

// ClientConfig returns the TLS configuration for a server at host. The server must present a certificate chain that
// leads to the CA with the hash pin. Nothing is sent to a server that cannot present one.
func ClientConfig(host, pin string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: strings.Trim(host, "[]"),
		// The CA is known only by its hash. VerifyConnection performs all checks skipped here, and always runs.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, strings.Trim(host, "[]"), pin)
		},
	}
}

// verify verifies a certificate chain that a server at host presented. It is pure.
func verify(chain []*x509.Certificate, host, pin string) error {
	roots := x509.NewCertPool()
	found := false
	for _, certificate := range chain {
		if certificate.IsCA && Pin(certificate) == pin {
			roots.AddCert(certificate)
			found = true
		}
	}
	if !found || CheckPin(pin) != nil {
		return ErrPin
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
		return fmt.Errorf("%w (%w)", ErrPin, err)
	}
	return nil
}
