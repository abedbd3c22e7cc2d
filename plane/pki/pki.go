// Package pki keeps the keys and certificates of the management plane in a directory, so that they survive restarts: a
// new certificate authority would invalidate every kubeconfig, every webhook's CA bundle and every token.
//
// There are two authorities. "ca" signs the certificates of the API server, the webhooks and all clients of the API
// server. "etcd-ca" signs those of etcd and its only client, so that no user of the API can talk to etcd directly. Leaf
// certificates are replaced when they near their expiry, when their names change, or when another authority signed
// them.
package pki

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// Lifetimes. The plane decides about renewal at each start, and repeatedly while it runs. It renews a leaf after two
// thirds of its lifetime.
const (
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
	LeafLifetime      = 365 * 24 * time.Hour
	RenewBefore       = LeafLifetime / 3
	// backdate makes new certificates valid on machines whose clocks lag a little.
	backdate = time.Hour
)

// Directory has keys and certificates: NAME.crt and NAME.key for each, in PEM, readable by the owner only.
type Directory struct {
	// Path is the directory; it is created if missing.
	Path string
	// Now returns the current time; nil means time.Now. For tests.
	Now func() time.Time
	// Lifetime is the lifetime of new leaves; zero means LeafLifetime. For tests.
	Lifetime time.Duration
	// KeepKeys renews leaves with their existing keys. Running processes read a certificate and its key one after the
	// other; this way the two always match.
	KeepKeys bool
}

// Pair is a certificate with its key.
type Pair struct {
	// CertFile and KeyFile are the paths of the PEM files.
	CertFile, KeyFile string
	// Cert and Key are the contents of these files.
	Cert, Key []byte

	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

// Current reads the certificate from the files again, because the certificate may have been renewed.
func (p Pair) Current() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate of the plane: %w", err)
	}
	return &pair, nil
}

// Leaf describes a certificate for an authority to sign.
type Leaf struct {
	// Name is the name of the files, without .crt and .key.
	Name string
	// CommonName is the user name of a client.
	CommonName string
	// Groups are the groups of a client.
	Groups []string
	// Hosts are the DNS names and addresses of a server. A leaf with hosts can be used by servers.
	Hosts []string
	// Client allows clients to use the leaf.
	Client bool
	// AtLeast is the minimum lifetime of the leaf, even if the lifetime of others is shorter.
	AtLeast time.Duration
}

// Authority returns the authority called name, and creates it if it does not exist. If the authority has expired or
// can't be read, it returns an error: a replacement would silently break everything that trusts the authority.
func (f Directory) Authority(name string) (Pair, error) {
	if err := os.MkdirAll(f.Path, 0o700); err != nil {
		return Pair{}, fmt.Errorf("creating the directory for keys: %w", err)
	}
	certFile, _ := f.files(name)
	if _, err := os.Stat(certFile); !errors.Is(err, fs.ErrNotExist) {
		pair, err := f.load(name)
		if err != nil {
			return Pair{}, fmt.Errorf("%w; restore it, or remove the directory %s to get a new authority, which invalidates "+
				"all earlier kubeconfigs", err, f.Path)
		}
		if f.now().After(pair.parsed.NotAfter) {
			return Pair{}, fmt.Errorf("the authority %s expired on %s; remove the directory %s to get a new one, which "+
				"invalidates "+
				"all earlier kubeconfigs",
				certFile, pair.parsed.NotAfter.Format(time.DateOnly), f.Path)
		}
		return pair, nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "capstan-plane-" + name},
		NotAfter:              f.now().Add(AuthorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	return f.sign(name, template, Pair{}, nil)
}

// Leaf returns the certificate described by leaf, signed by ca. It creates the certificate if it is missing, near its
// expiry or different.
func (f Directory) Leaf(ca Pair, leaf Leaf) (Pair, error) {
	lifetime := max(cmp.Or(f.Lifetime, LeafLifetime), leaf.AtLeast)
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Groups},
		NotAfter: f.now().Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if leaf.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if len(leaf.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	var key *ecdsa.PrivateKey
	if pair, err := f.load(leaf.Name); err == nil {
		if f.lasts(pair.parsed, ca.parsed, lifetime/3) && f.good(pair.parsed, template, ca.parsed) {
			return pair, nil
		}
		if f.KeepKeys {
			key = pair.signer
		}
	}
	return f.sign(leaf.Name, template, ca, key)
}

// lasts reports whether a certificate is far enough from its expiry, or can't last longer because its authority
// expires.
func (f Directory) lasts(have, ca *x509.Certificate, atLeast time.Duration) bool {
	return f.now().Add(atLeast).Before(have.NotAfter) || !have.NotAfter.Before(ca.NotAfter)
}

// good reports whether a certificate matches the template want and was signed by ca.
func (f Directory) good(have, want, ca *x509.Certificate) bool {
	return !f.now().Before(have.NotBefore) &&
		have.CheckSignatureFrom(ca) == nil &&
		have.Subject.CommonName == want.Subject.CommonName &&
		slices.Equal(have.Subject.Organization, want.Subject.Organization) &&
		slices.Equal(have.DNSNames, want.DNSNames) &&
		slices.EqualFunc(have.IPAddresses, want.IPAddresses, net.IP.Equal) &&
		slices.Equal(have.ExtKeyUsage, want.ExtKeyUsage)
}

// sign creates a certificate from template. ca signs it; if ca is empty, the certificate is self-signed. It creates a
// key if key is nil, and writes both files.
func (f Directory) sign(name string, template *x509.Certificate, ca Pair, key *ecdsa.PrivateKey) (Pair, error) {
	if key == nil {
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return Pair{}, fmt.Errorf("making a key: %w", err)
		}
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = f.now().Add(-backdate)
	parent, signer := ca.parsed, ca.signer
	if parent == nil {
		parent, signer = template, key
	} else if template.NotAfter.After(parent.NotAfter) {
		template.NotAfter = parent.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate %s: %w", name, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encoding the key %s: %w", name, err)
	}
	certFile, keyFile := f.files(name)
	// Write the key first. A kill between the two writes leaves an authority without a certificate, which counts as
	// missing, or a leaf whose certificate and key don't match, which is replaced.
	if err := atomicfile.Write(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		0o600); err != nil {
		return Pair{}, err
	}
	if err := atomicfile.Write(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		0o600); err != nil {
		return Pair{}, err
	}
	return f.load(name)
}

// load reads a pair and checks that certificate and key match.
func (f Directory) load(name string) (Pair, error) {
	pair := Pair{}
	pair.CertFile, pair.KeyFile = f.files(name)
	var err error
	if pair.Cert, err = os.ReadFile(pair.CertFile); err != nil {
		return Pair{}, fmt.Errorf("reading a certificate: %w", err)
	}
	if pair.Key, err = os.ReadFile(pair.KeyFile); err != nil {
		return Pair{}, fmt.Errorf("reading a key: %w", err)
	}
	certBlock, _ := pem.Decode(pair.Cert)
	keyBlock, _ := pem.Decode(pair.Key)
	if certBlock == nil || keyBlock == nil {
		return Pair{}, fmt.Errorf("%s or its key is not PEM", pair.CertFile)
	}
	if pair.parsed, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return Pair{}, fmt.Errorf("reading %s: %w", pair.CertFile, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return Pair{}, fmt.Errorf("reading %s: %w", pair.KeyFile, err)
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(pair.parsed.PublicKey) {
		return Pair{}, fmt.Errorf("%s is not the key of %s", pair.KeyFile, pair.CertFile)
	}
	pair.signer = signer
	return pair, nil
}

func (f Directory) files(name string) (cert, key string) {
	return filepath.Join(f.Path, name+".crt"), filepath.Join(f.Path, name+".key")
}

func (f Directory) now() time.Time {
	if f.Now != nil {
		return f.Now()
	}
	return time.Now()
}
