package enroll

import (
	"crypto"
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
	"os"
	"path/filepath"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// KeyFile is the name, in the state directory, of the file with the host's own key. The key never leaves the host; the
// plane identifies the host by the hash of the public key.
const KeyFile = "enrolment.key"

// ownKey returns the host's key, and creates it if there is none. A key that can't be read is an error, because with
// another key this computer would be another host.
func ownKey(stateDir string) (crypto.Signer, error) {
	key, err := readKey(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(filepath.Join(stateDir, KeyFile))
	}
	return key, err
}

// readKey returns the host's key.
func readKey(stateDir string) (crypto.Signer, error) {
	path := filepath.Join(stateDir, KeyFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the host's key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf(
			"the host's key %s is damaged: remove it; the plane then treats this computer as a new host",
			path,
		)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	signer, ok := key.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf(
			"the host's key %s is damaged: remove it; the plane then treats this computer as a new host",
			path,
		)
	}
	return signer, nil
}

func makeKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating the host's key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("creating the host's key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := atomicfile.Write(path, text, 0o600); err != nil {
		return nil, fmt.Errorf("storing the host's key: %w", err)
	}
	return key, nil
}

// certificate returns a self-signed certificate of the key. Its contents mean nothing: presenting it proves that the
// host has the key.
func certificate(key crypto.Signer) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "capstan-host"},
		// The host's clock may be wrong; nobody checks these times.
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("signing with the host's key: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
