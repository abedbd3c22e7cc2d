package backup

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/workload"
)

// clientValidity is the validity of a certificate for one backup.
const clientValidity = time.Hour

// ErrNotInitialized reports that a cluster has no control plane to back up yet.
var ErrNotInitialized = errors.New("the cluster has no control plane yet")

// ErrNoAuthority reports that a cluster has a kubeconfig but not all authorities of a kubeadm control plane.
var ErrNoAuthority = errors.New("the cluster does not have all authorities that kubeadm's control planes have")

// ErrElsewhere reports that the etcd of a cluster is managed elsewhere.
var ErrElsewhere = errors.New("the cluster's etcd is managed elsewhere, and has to be backed up there")

// authorities are the Secrets of a cluster without which a snapshot is useless.
var authorities = []string{"ca", "etcd", "proxy", "sa"}

// Access is a connection to the etcd of a cluster.
type Access struct {
	// Config connects to the cluster's API server.
	Config *rest.Config
	// Fingerprints are the fingerprints of the authorities, by purpose.
	Fingerprints map[string]string

	etcd *tls.Config
}

// ReadAccess reads the Secrets NAME-kubeconfig, NAME-etcd, NAME-ca, NAME-proxy and NAME-sa of a cluster.
func ReadAccess(ctx context.Context, reader client.Reader, namespace, cluster string) (*Access, error) {
	a := &Access{Fingerprints: map[string]string{}}
	get := func(purpose string, missing error) (*corev1.Secret, error) {
		secret := &corev1.Secret{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: cluster + "-" + purpose}, secret)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w: there is no Secret %s-%s", missing, cluster, purpose)
		}
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s-%s: %w", cluster, purpose, err)
		}
		return secret, nil
	}
	kubeconfig, err := get("kubeconfig", ErrNotInitialized)
	if err != nil {
		return nil, err
	}
	for _, purpose := range authorities {
		secret, err := get(purpose, ErrNoAuthority)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(secret.Data["tls.crt"])
		a.Fingerprints[purpose] = hex.EncodeToString(sum[:])
		if purpose != "etcd" {
			continue
		}
		if len(secret.Data["tls.key"]) == 0 {
			return nil, fmt.Errorf("%w: Secret %s-etcd has no key", ErrElsewhere, cluster)
		}
		if a.etcd, err = etcdTLS(secret.Data["tls.crt"], secret.Data["tls.key"], time.Now()); err != nil {
			return nil, fmt.Errorf("using the authority in Secret %s-etcd: %w", cluster, err)
		}
	}
	if a.Config, err = workload.Config(kubeconfig.Data["value"]); err != nil {
		return nil, fmt.Errorf("using the kubeconfig in Secret %s-kubeconfig: %w", cluster, err)
	}
	return a, nil
}

// etcdTLS issues a client certificate. It verifies the member by the name localhost, which kubeadm puts into each
// member's certificate, because the port-forward ends on the member's loopback interface.
func etcdTLS(ca, key []byte, now time.Time) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(ca, key)
	if err != nil {
		return nil, err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "capstan-backup"},
		NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(clientValidity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, pair.Leaf, &own.PublicKey, pair.PrivateKey)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// gRPC would verify the name that it dials, a pod's name, so we verify the certificate ourselves.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			intermediates := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				intermediates.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
				DNSName: "localhost", Roots: roots, Intermediates: intermediates,
			})
			return err
		},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}},
	}, nil
}
