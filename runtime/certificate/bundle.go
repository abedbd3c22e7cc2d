package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Names under which a [Store] keeps the parts of a [Bundle]. Kubernetes and cert-manager use the same names.
const (
	// AuthoritiesKey is the PEM of all authorities that callers should trust.
	AuthoritiesKey = "ca.crt"
	// AuthorityKeysKey is the PEM of the authorities' keys, in the same order.
	AuthorityKeysKey = "ca.key"
	// CertificateKey is the PEM of the server's certificate.
	CertificateKey = "tls.crt"
	// PrivateKeyKey is the PEM of the certificate's key.
	PrivateKeyKey = "tls.key"
)

// Bundle is the content of a [Store]: parts in PEM form under the names above. It is empty before the first
// certificate is issued.
type Bundle map[string][]byte

// clockSkew is how far callers' clocks may be behind.
const clockSkew = 5 * time.Minute

// authority signs server certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// identity is a decoded bundle.
type identity struct {
	authorities []authority // newest first
	leaf        *x509.Certificate
	pair        tls.Certificate
}

// decode reads a bundle. If it returns an error, the bundle can't be used and must be replaced.
func decode(b Bundle) (*identity, error) {
	certs, err := certificates(b[AuthoritiesKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", AuthoritiesKey, err)
	}
	keys, err := privateKeys(b[AuthorityKeysKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", AuthorityKeysKey, err)
	}
	if len(certs) == 0 || len(certs) != len(keys) {
		return nil, fmt.Errorf("%s has %d certificates and %s has %d keys", AuthoritiesKey, len(certs),
			AuthorityKeysKey, len(keys))
	}
	id := &identity{}
	for i, cert := range certs {
		if !keys[i].PublicKey.Equal(cert.PublicKey) {
			return nil, fmt.Errorf("key %d of %s does not belong to certificate %d of %s", i+1, AuthorityKeysKey, i+1,
				AuthoritiesKey)
		}
		id.authorities = append(id.authorities, authority{cert: cert, key: keys[i]})
	}
	if id.pair, err = tls.X509KeyPair(b[CertificateKey], b[PrivateKeyKey]); err != nil {
		return nil, fmt.Errorf("reading %s and %s: %w", CertificateKey, PrivateKeyKey, err)
	}
	if id.leaf, err = x509.ParseCertificate(id.pair.Certificate[0]); err != nil {
		return nil, fmt.Errorf("reading %s: %w", CertificateKey, err)
	}
	id.pair.Leaf = id.leaf
	return id, nil
}

// encode is the reverse of decode.
func encode(id *identity) (Bundle, error) {
	b := Bundle{}
	for _, a := range id.authorities {
		key, err := keyPEM(a.key)
		if err != nil {
			return nil, err
		}
		b[AuthoritiesKey] = append(b[AuthoritiesKey], certPEM(a.cert.Raw)...)
		b[AuthorityKeysKey] = append(b[AuthorityKeysKey], key...)
	}
	private, ok := id.pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the server's key is a %T, which this package did not make", id.pair.PrivateKey)
	}
	key, err := keyPEM(private)
	if err != nil {
		return nil, err
	}
	b[CertificateKey], b[PrivateKeyKey] = certPEM(id.pair.Certificate[0]), key
	return b, nil
}

// renew returns the identity that should replace the one in the bundle old (next), and reports whether the two differ
// (changed). If renew can't read old, it replaces all parts.
func renew(old Bundle, o Options, now time.Time) (next *identity, changed bool, err error) {
	current, err := decode(old)
	if err != nil {
		current = &identity{}
	}
	next = &identity{authorities: slices.Clone(current.authorities), leaf: current.leaf, pair: current.pair}
	next.authorities = slices.DeleteFunc(next.authorities, func(a authority) bool { return !now.Before(a.cert.NotAfter) })
	if len(next.authorities) == 0 || isDue(next.authorities[0].cert, now) {
		made, err := newAuthority(o, now)
		if err != nil {
			return nil, false, err
		}
		next.authorities = slices.Insert(next.authorities, 0, made)
	}
	signer := signerOf(next.authorities, o.Overlap, now)
	if next.leaf == nil || isDue(next.leaf, now) || !covers(next.leaf, o.Hosts) ||
		!isSignedBy(next.leaf, next.authorities) {
		if err := next.sign(signer, o, now); err != nil {
			return nil, false, err
		}
	}
	changed = len(next.authorities) != len(current.authorities) || next.leaf != current.leaf ||
		!slices.EqualFunc(next.authorities, current.authorities, func(a, b authority) bool { return a.cert == b.cert })
	return next, changed, nil
}

// signerOf returns the newest authority that was published for long enough; if there is none, the oldest.
func signerOf(authorities []authority, overlap time.Duration, now time.Time) authority {
	for _, a := range authorities {
		if !a.cert.NotBefore.Add(clockSkew + overlap).After(now) {
			return a
		}
	}
	return authorities[len(authorities)-1]
}

// isDue reports whether two thirds of a certificate's lifetime are over.
func isDue(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) * 2 / 3))
}

func covers(leaf *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return leaf.VerifyHostname(host) != nil })
}

func isSignedBy(leaf *x509.Certificate, authorities []authority) bool {
	return slices.ContainsFunc(authorities, func(a authority) bool { return leaf.CheckSignatureFrom(a.cert) == nil })
}

func newAuthority(o Options, now time.Time) (authority, error) {
	key, serial, err := newKey()
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		// The serial in the name distinguishes an authority from its predecessor: both are trusted for a while.
		SerialNumber: serial, Subject: pkix.Name{CommonName: o.Name + " authority " + serial.Text(36)},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(o.AuthorityLifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return authority{}, fmt.Errorf("making an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, fmt.Errorf("making an authority: %w", err)
	}
	return authority{cert: cert, key: key}, nil
}

// sign replaces the server's certificate. The new one does not outlive its authority.
func (id *identity) sign(by authority, o Options, now time.Time) error {
	key, serial, err := newKey()
	if err != nil {
		return err
	}
	end := now.Add(o.Lifetime)
	if by.cert.NotAfter.Before(end) {
		end = by.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: o.Name},
		NotBefore: now.Add(-clockSkew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range o.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		return fmt.Errorf("signing the server's certificate: %w", err)
	}
	if id.leaf, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("signing the server's certificate: %w", err)
	}
	id.pair = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: id.leaf}
	return nil
}

func newKey() (*ecdsa.PrivateKey, *big.Int, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, nil, fmt.Errorf("making a serial number: %w", err)
	}
	return key, serial.Add(serial, big.NewInt(1)), nil
}

func certificates(data []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, cert)
	}
	return all, nil
}

func privateKeys(data []byte) ([]*ecdsa.PrivateKey, error) {
	var all []*ecdsa.PrivateKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errors.New("it holds no key in PKCS #8 form") // without the cause, which could quote the key
		}
		key, ok := parsed.(*ecdsa.PrivateKey)
		if !ok {
			return nil, errors.New("it holds a key of another type")
		}
		all = append(all, key)
	}
	return all, nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
