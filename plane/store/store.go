// Package store works on the plane's etcd without the API server: it measures, shrinks and saves etcd, and reads and
// writes single values. Package seal and the plane's upkeep use it.
package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/capstan-dev/capstan/plane/pki"
)

// requestLimit bounds one small request.
const requestLimit = 10 * time.Second

// shrinkLimit bounds a compaction or a defragmentation, which rewrites the whole file.
const shrinkLimit = 2 * time.Minute

// Store is a connection to the plane's only etcd member.
type Store struct {
	client   *clientv3.Client
	endpoint string
}

// Open returns a connection to the etcd at a URL. The connection uses the certificate of etcd's only client, and reads
// the certificate again at each handshake. Open makes no call. The caller must call Close.
func Open(endpoint string, ca, certificate pki.Pair) (*Store, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.Cert)
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{endpoint},
		DialTimeout: requestLimit,
		Logger:      zap.NewNop(),
		TLS: &tls.Config{
			RootCAs: pool, MinVersion: tls.VersionTLS12,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate.Current() },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	return &Store{client: client, endpoint: endpoint}, nil
}

// Close closes the connection.
func (s *Store) Close() error { return s.client.Close() }

// Keys returns the keys that begin with prefix.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, shrinkLimit)
	defer cancel()
	answer, err := s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(answer.Kvs))
	for _, kv := range answer.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, nil
}

// Get returns the value of a key and its revision; the revision is 0 if there is none.
func (s *Store) Get(ctx context.Context, key string) (value []byte, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	answer, err := s.client.Get(ctx, key)
	if err != nil || len(answer.Kvs) == 0 {
		return nil, 0, err
	}
	return answer.Kvs[0].Value, answer.Kvs[0].ModRevision, nil
}

// Replace changes the value of a key if the key still has that revision; revision 0 means that the key does not exist.
// If the key has another revision, Replace fails.
func (s *Store) Replace(ctx context.Context, key string, value []byte, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var keep []clientv3.OpOption
	if revision > 0 {
		keep = append(keep, clientv3.WithIgnoreLease())
	}
	answer, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, string(value), keep...)).
		Commit()
	if err != nil {
		return err
	}
	if !answer.Succeeded {
		return errors.New("it has changed in the meantime: another program writes to this etcd")
	}
	return nil
}

// Compact discards all but the newest version of each value. The space becomes free inside etcd's file.
func (s *Store) Compact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shrinkLimit)
	defer cancel()
	answer, err := s.client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("asking etcd for its revision: %w", err)
	}
	_, err = s.client.Compact(ctx, answer.Header.Revision, clientv3.WithCompactPhysical())
	// The API server compacts, too, and may have been first.
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compacting etcd: %w", err)
	}
	return nil
}

// Defragment rewrites etcd's file without its free space. Meanwhile etcd answers no requests. Defragmentation takes
// about a second per 100 MiB in use.
func (s *Store) Defragment(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shrinkLimit)
	defer cancel()
	if _, err := s.client.Defragment(ctx, s.endpoint); err != nil {
		return fmt.Errorf("defragmenting etcd: %w", err)
	}
	return nil
}

// Save writes a snapshot to a file that must not exist.
func (s *Store) Save(ctx context.Context, path string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, shrinkLimit)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("saving a snapshot of etcd: %w", err)
		}
	}()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	snapshot, err := s.client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	if _, err := io.Copy(file, snapshot); err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
