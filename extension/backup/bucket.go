package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	// bucketTimeout limits each request that sends or receives no snapshot. For the others it limits the wait for the
	// response header.
	bucketTimeout = 30 * time.Second
	// maxObject is the maximum size of an object that an S3-compatible store accepts in one request.
	maxObject = 5 << 30
	// maxAnswer limits the bytes read of a listing or an error.
	maxAnswer = 8 << 20
	// maxPages limits the number of listings of up to a thousand objects.
	maxPages = 100

	emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // SHA-256 of nothing
)

// Bucket stores backups in a bucket of an S3-compatible store, as objects PREFIX/NAMESPACE/CLUSTER/NAME/FILE. It writes
// the manifest last and removes it first, so without a manifest there is no backup. Create a Bucket with [OpenBucket]
// and Close it.
type Bucket struct {
	place       Place
	credentials aws.Credentials
	http        *http.Client
	signer      *v4.Signer
}

var _ Store = &Bucket{}

// Credentials grant access to a bucket.
type Credentials struct {
	// AccessKeyID and SecretAccessKey sign requests. The secret key is never sent. Required.
	AccessKeyID, SecretAccessKey string
	// CA holds the PEM certificates to verify the store's certificate with. Default: those of the operating system.
	CA []byte
}

// OpenBucket returns the store for a bucket. It makes no request.
func OpenBucket(place Place, credentials Credentials) (*Bucket, error) {
	if err := place.check(); err != nil {
		return nil, err
	}
	if credentials.AccessKeyID == "" || credentials.SecretAccessKey == "" {
		return nil, fmt.Errorf("opening bucket %s: there is no access key", place.Bucket)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(credentials.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(credentials.CA) {
			return nil, fmt.Errorf("opening bucket %s: its authorities are not certificates in PEM form", place.Bucket)
		}
	}
	return &Bucket{
		place: place, credentials: aws.Credentials{
			AccessKeyID: credentials.AccessKeyID, SecretAccessKey: credentials.SecretAccessKey,
		},
		// The names of objects need no escaping: see Place.check.
		signer: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }),
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, TLSHandshakeTimeout: bucketTimeout,
				ResponseHeaderTimeout: bucketTimeout, MaxConnsPerHost: 4,
			},
			// A signature is valid for one host only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes idle connections.
func (b *Bucket) Close() { b.http.CloseIdleConnections() }

// Add implements Store. The store verifies the SHA-256 of what it receives.
func (b *Bucket) Add(ctx context.Context, m Manifest, file string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping backup %s in bucket %s: %w", m.Name, b.place.Bucket, err)
		}
	}()
	if err := checkName(m.Namespace, m.Cluster, m.Name); err != nil {
		return err
	}
	if m.Size > maxObject {
		return fmt.Errorf("it has %d bytes, but a bucket takes at most %d in one piece: keep it on disk", m.Size,
			int64(maxObject))
	}
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	snapshot, err := os.Open(file)
	if err != nil {
		return err
	}
	defer snapshot.Close()
	if err := b.put(ctx, b.key(m, snapshotFile), snapshot, m.Size, m.SHA256); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	sum := sha256.Sum256(manifest)
	return b.put(ctx, b.key(m, manifestFile), bytes.NewReader(manifest), int64(len(manifest)), hex.EncodeToString(sum[:]))
}

// put writes an object unless it exists. Stores that do not know the condition overwrite it.
func (b *Bucket) put(ctx context.Context, key string, body io.Reader, size int64, sum string) error {
	response, err := b.send(ctx, http.MethodPut, key, nil, body, size, sum)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// List implements Store.
func (b *Bucket) List(ctx context.Context, namespace, cluster string) (all []Manifest, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("listing backups in bucket %s: %w", b.place.Bucket, err)
		}
	}()
	prefix, most := b.place.Prefix, maxList
	if namespace != "" || cluster != "" {
		if err := checkName(namespace, cluster); err != nil {
			return nil, err
		}
		prefix, most = path.Join(prefix, namespace, cluster), maxBackups
	}
	if prefix != "" {
		prefix += "/"
	}
	keys, err := b.keys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return path.Base(key) != manifestFile })
	var damaged []error
	for _, key := range keys[max(0, len(keys)-most):] { // sorted by name, so those of one cluster are sorted by time
		m, err := b.manifest(ctx, key)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed in the meantime
		}
		if errors.Is(err, ErrDamaged) {
			damaged = append(damaged, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	sortByTime(all)
	return all, errors.Join(damaged...)
}

// Tidy implements Store. It removes snapshots without a manifest.
func (b *Bucket) Tidy(ctx context.Context, namespace, cluster string, now time.Time) error {
	if err := checkName(namespace, cluster); err != nil {
		return err
	}
	keys, err := b.keys(ctx, path.Join(b.place.Prefix, namespace, cluster)+"/")
	if err != nil {
		return fmt.Errorf("tidying bucket %s: %w", b.place.Bucket, err)
	}
	whole := map[string]bool{}
	for _, key := range keys {
		if directory, file := path.Split(key); file == manifestFile {
			whole[directory] = true
		}
	}
	for _, key := range keys {
		directory, file := path.Split(key)
		name := path.Base(directory)
		if began, err := timeOf(name); file != snapshotFile || whole[directory] || err != nil || now.Sub(began) < leftFor {
			continue
		}
		if err := b.Remove(ctx, Manifest{Namespace: namespace, Cluster: cluster, Name: name}); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the keys of all objects below a prefix.
func (b *Bucket) keys(ctx context.Context, prefix string) (keys []string, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
	for range maxPages {
		data, err := b.get(ctx, "", query, maxAnswer)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents []struct{ Key string }
			Next     string `xml:"NextContinuationToken"`
		}
		if err := xml.Unmarshal(data, &page); err != nil {
			return nil, fmt.Errorf("reading its listing: %w", err)
		}
		for _, object := range page.Contents {
			keys = append(keys, object.Key)
		}
		if page.Next == "" {
			return keys, nil
		}
		query.Set("continuation-token", page.Next)
	}
	return nil, fmt.Errorf("it has more than %d objects with prefix %q", 1000*maxPages, prefix)
}

func (b *Bucket) manifest(ctx context.Context, key string) (m Manifest, err error) {
	data, err := b.get(ctx, key, nil, maxManifest)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%w: %s (remove it if the backup is not needed): %w", ErrDamaged, key, err)
	}
	if b.key(m, manifestFile) != key {
		return m, fmt.Errorf("%w: %s is the manifest of another backup: somebody has copied it", ErrDamaged, key)
	}
	return m, nil
}

func (b *Bucket) get(ctx context.Context, key string, query url.Values, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	response, err := b.send(ctx, http.MethodGet, key, query, nil, 0, emptySum)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("its answer has more than %d bytes", most)
	}
	return data, err
}

// Fetch implements Store.
func (b *Bucket) Fetch(ctx context.Context, m Manifest, file string) error {
	if err := checkName(m.Namespace, m.Cluster, m.Name); err != nil {
		return err
	}
	response, err := b.send(ctx, http.MethodGet, b.key(m, snapshotFile), nil, nil, 0, emptySum)
	if err != nil {
		return fmt.Errorf("reading backup %s from bucket %s: %w", m.Name, b.place.Bucket, err)
	}
	defer response.Body.Close()
	sum, err := writeNew(ctx, file, io.LimitReader(response.Body, maxObject))
	if err != nil {
		return fmt.Errorf("reading backup %s from bucket %s: %w", m.Name, b.place.Bucket, err)
	}
	return checkSum(m, sum)
}

// Remove implements Store.
func (b *Bucket) Remove(ctx context.Context, m Manifest) error {
	if err := checkName(m.Namespace, m.Cluster, m.Name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	for _, file := range []string{manifestFile, snapshotFile} {
		response, err := b.send(ctx, http.MethodDelete, b.key(m, file), nil, nil, 0, emptySum)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("removing backup %s from bucket %s: %w", m.Name, b.place.Bucket, err)
		}
		if err := response.Body.Close(); err != nil {
			return fmt.Errorf("removing backup %s from bucket %s: %w", m.Name, b.place.Bucket, err)
		}
	}
	return nil
}

func (b *Bucket) key(m Manifest, file string) string {
	return path.Join(b.place.Prefix, m.Namespace, m.Cluster, m.Name, file)
}

// send signs and sends a request for an object, or for the bucket if key is empty. Any answer but success becomes an
// error, which is os.ErrNotExist if the object does not exist.
func (b *Bucket) send(ctx context.Context, method, key string, query url.Values, body io.Reader, size int64,
	sum string) (*http.Response, error) {
	target := strings.TrimSuffix(b.place.Endpoint, "/") + "/" + b.place.Bucket
	if key != "" {
		target += "/" + key
	}
	if len(query) > 0 {
		target += "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
	}
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Amz-Content-Sha256", sum)
	if method == http.MethodPut {
		request.ContentLength = size
		if size == 0 {
			request.Body = http.NoBody
		}
		request.Header.Set("If-None-Match", "*")
	}
	if err := b.signer.SignHTTP(ctx, b.credentials, request, sum, "s3", b.place.Region, time.Now()); err != nil {
		return nil, fmt.Errorf("signing a request: %w", err)
	}
	response, err := b.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 200 && response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, refused(response)
}

// refused reads the reason for a store's refusal. It reports only code and message, because the rest contains parts of
// the request.
func refused(response *http.Response) error {
	var why struct{ Code, Message string }
	if data, err := io.ReadAll(io.LimitReader(response.Body, maxManifest)); err == nil {
		_ = xml.Unmarshal(data, &why) // not every store gives a reason
	}
	text := lastLines([]byte(why.Code + " " + why.Message))
	// A missing bucket or account has the same status but does not mean that the object is gone.
	if response.StatusCode == http.StatusNotFound && why.Code == "NoSuchKey" {
		return fmt.Errorf("%w: it answers %s %s", os.ErrNotExist, response.Status, text)
	}
	return fmt.Errorf("it answers %s %s", response.Status, text)
}
