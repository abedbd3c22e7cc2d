package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// s3 is a store with one bucket. It keeps objects and checks signatures and sums.
type s3 struct {
	mu      sync.Mutex
	objects map[string][]byte
	status  int // if not 0, the status of every answer
	page    int // number of objects per listing
}

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+
			"</Code><Message>as told</Message><StringToSign>SECRET</StringToSign></Error>")
	}
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	key, inBucket := strings.CutPrefix(r.URL.Path, "/backups")
	key = strings.TrimPrefix(key, "/")
	_, there := s.objects[key]
	unsigned := checkSignature(r, "AKID", "SECRET", "us-east-1", time.Now())
	switch {
	case err != nil:
		refuse(http.StatusBadRequest, "IncompleteBody")
	case s.status != 0:
		refuse(s.status, "AccessDenied")
	case unsigned != "":
		refuse(http.StatusForbidden, unsigned)
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		refuse(http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	case !inBucket:
		refuse(http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodPut && there:
		refuse(http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		s.objects[key] = body
	case key == "":
		s.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("continuation-token"))
	case !there:
		refuse(http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		_, _ = w.Write(s.objects[key])
	}
}

func (s *s3) list(w io.Writer, prefix, after string) {
	type object struct{ Key string }
	answer := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Contents              []object
		NextContinuationToken string `xml:",omitempty"`
	}{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		if len(answer.Contents) == s.page {
			answer.NextContinuationToken = answer.Contents[len(answer.Contents)-1].Key
			break
		}
		answer.Contents = append(answer.Contents, object{key})
	}
	_ = xml.NewEncoder(w).Encode(answer)
}

func newBucket(t *testing.T, prefix string) (*s3, *Bucket, Place, Credentials) {
	t.Helper()
	s := &s3{objects: map[string][]byte{}, page: 3}
	listening := httptest.NewTLSServer(s)
	t.Cleanup(listening.Close)
	place := Place{Endpoint: listening.URL, Bucket: "backups", Region: "us-east-1", Prefix: prefix}
	credentials := Credentials{
		AccessKeyID: "AKID", SecretAccessKey: "SECRET",
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listening.Certificate().Raw}),
	}
	b, err := OpenBucket(place, credentials)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return s, b, place, credentials
}

// A bucket works like a disk: it stores, finds, fetches and removes backups, each completely or not at all.
func TestBucket(t *testing.T) {
	for name, prefix := range map[string]string{"with a prefix": "capstan/site-1", "without": ""} {
		t.Run(name, func(t *testing.T) {
			s, b, _, _ := newBucket(t, prefix)
			keepsBackups(t, b, func(key string, data []byte) { s.objects[key] = data })
		})
	}
}

// keepsBackups checks everything that a bucket must do. plant puts an object into the bucket without using b.
func keepsBackups(t *testing.T, b *Bucket, plant func(key string, data []byte)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot")
	data := []byte(strings.Repeat("etcd", 1000))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	backup := func(cluster string, minute int) Manifest {
		at := time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)
		return Manifest{
			Name: nameOf(at, ReasonManual), Namespace: "default", Cluster: cluster, Reason: ReasonManual, Time: at,
			Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:]),
		}
	}
	for _, m := range []Manifest{backup("blue", 2), backup("blue", 1), backup("blue-2", 3), backup("green", 4)} {
		if err := b.Add(t.Context(), m, file); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Add(t.Context(), backup("blue", 1), file); err == nil || !strings.Contains(err.Error(), "412") {
		t.Errorf("a backup was replaced by another one of the same name: %v", err)
	}
	damaged := backup("blue", 5)
	damaged.SHA256 = strings.Repeat("0", 64)
	if err := b.Add(t.Context(), damaged, file); err == nil ||
		!strings.Contains(err.Error(), "XAmzContentSHA256Mismatch") {
		t.Errorf("the store accepts a snapshot that was damaged on the way: %v", err)
	}
	plant(b.key(backup("blue", 6), snapshotFile), data) // a crash before the manifest
	for want, names := range map[int][2]string{
		2: {"default", "blue"}, 1: {"default", "green"}, 4: {"", ""}, 0: {"other", "blue"},
	} {
		all, err := b.List(t.Context(), names[0], names[1])
		if err != nil || len(all) != want || !slices.IsSortedFunc(all,
			func(a, b Manifest) int { return a.Time.Compare(b.Time) }) {
			t.Errorf("backups of %q: %v, %v", names, all, err)
		}
	}
	m := backup("blue", 1)
	fetched := filepath.Join(t.TempDir(), "fetched")
	if err := b.Fetch(t.Context(), m, fetched); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(fetched); err != nil || string(got) != string(data) {
		t.Errorf("fetched %d bytes, %v", len(got), err)
	}
	plant(b.key(m, snapshotFile), []byte("damaged"))
	if err := b.Fetch(t.Context(), m, fetched+"2"); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("fetching a damaged backup: %v", err)
	}
	for range 2 {
		if err := b.Remove(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	if all, err := b.List(t.Context(), "default", "blue"); err != nil || len(all) != 1 {
		t.Errorf("backups after one was removed: %v, %v", all, err)
	}
	if err := b.Tidy(t.Context(), "default", "blue", time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Error(err)
	}
	left, err := b.keys(t.Context(), b.place.Prefix)
	if slices.ContainsFunc(left, func(key string) bool { return key == b.key(backup("blue", 6), snapshotFile) }) ||
		len(left) != 6 || err != nil {
		t.Errorf("objects after Tidy: %v, %v", left, err)
	}
}

// The error for a refused request contains the store's reason, but no secrets.
func TestRefused(t *testing.T) {
	s, b, place, credentials := newBucket(t, "")
	s.status = http.StatusForbidden
	if _, err := b.List(t.Context(), "", ""); err == nil ||
		!strings.Contains(err.Error(), "listing backups in bucket backups: it answers 403 Forbidden AccessDenied as told") ||
		strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
	s.status = 0
	refusesStrangers(t, place, credentials, "403 Forbidden InvalidAccessKeyId")
	s.status = http.StatusTemporaryRedirect
	if _, err := b.List(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("the error for a redirect is %v", err)
	}
	s.status = 0
	if err := b.Remove(t.Context(), Manifest{Namespace: "..", Cluster: "a", Name: "b"}); err == nil {
		t.Error("a name that leads elsewhere was accepted")
	}
}

// refusesStrangers checks a store's answers to wrong keys and to requests for another bucket. unknown is its answer to
// an access key that it doesn't know.
func refusesStrangers(t *testing.T, place Place, right Credentials, unknown string) {
	t.Helper()
	wrongKey, wrongSecret, elsewhere := right, right, place
	wrongKey.AccessKeyID, wrongSecret.SecretAccessKey, elsewhere.Bucket = "OTHER", "WRONG", "other"
	for want, c := range map[string]struct {
		place       Place
		credentials Credentials
	}{
		"it answers 403 Forbidden SignatureDoesNotMatch": {place, wrongSecret},
		"it answers " + unknown:                          {place, wrongKey},
		"it answers 404 Not Found NoSuchBucket":          {elsewhere, right},
	} {
		b, err := OpenBucket(c.place, c.credentials)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.List(t.Context(), "", ""); err == nil || errors.Is(err, os.ErrNotExist) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		// A refused removal must not look like the removal of something that is gone already.
		if err := b.Remove(t.Context(), Manifest{Namespace: "default", Cluster: "blue", Name: "a"}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("removing: got %v, want %s", err, want)
		}
		b.Close()
	}
}

func TestOpenBucket(t *testing.T) {
	right, keys := Place{
		Endpoint: "https://s3.example.org:9000", Bucket: "backups", Region: "us-east-1", Prefix: "a/b",
	}, Credentials{AccessKeyID: "a", SecretAccessKey: "b"}
	for name, c := range map[string]struct {
		change func(*Place, *Credentials)
		want   string
	}{
		"a valid place": {func(*Place, *Credentials) {}, ""},
		"http": {func(p *Place, _ *Credentials) { p.Endpoint = "http://s3.example.org" },
			"backup.insecure"},
		"http that is allowed": {
			func(p *Place, _ *Credentials) { p.Endpoint, p.Insecure = "http://127.0.0.1:9000", true }, "",
		},
		"no URL": {func(p *Place, _ *Credentials) { p.Endpoint = "s3.example.org" }, "it must be https://"},
		"a password in the URL": {func(p *Place, _ *Credentials) { p.Endpoint = "https://a:b@s3.example.org" },
			"it must be https://"},
		"a path in the URL": {func(p *Place, _ *Credentials) { p.Endpoint = "https://s3.example.org/a" },
			"it must be https://"},
		"another scheme": {func(p *Place, _ *Credentials) { p.Endpoint = "file://s3.example.org" },
			"it must be https://"},
		"no bucket":               {func(p *Place, _ *Credentials) { p.Bucket = "A/B" }, "not the name of a bucket"},
		"no region":               {func(p *Place, _ *Credentials) { p.Region = "" }, "not a region"},
		"a prefix that goes up":   {func(p *Place, _ *Credentials) { p.Prefix = "a/../b" }, "a prefix is made of"},
		"a prefix with an escape": {func(p *Place, _ *Credentials) { p.Prefix = "a%2fb" }, "a prefix is made of"},
		"no secret key":           {func(_ *Place, c *Credentials) { c.SecretAccessKey = "" }, "no access key"},
		"invalid authorities":     {func(_ *Place, c *Credentials) { c.CA = []byte("x") }, "not certificates"},
	} {
		t.Run(name, func(t *testing.T) {
			p, k := right, keys
			c.change(&p, &k)
			b, err := OpenBucket(p, k)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if err == nil {
				b.Close()
			}
		})
	}
}

// The settings select the bucket, and a Secret has its keys.
func TestRunnerKeepsInABucket(t *testing.T) {
	s, _, place, credentials := newBucket(t, "")
	secret := &corev1.Secret{
		Data: map[string][]byte{
			"access-key-id": []byte(credentials.AccessKeyID), "secret-access-key": []byte(credentials.SecretAccessKey),
			"ca.crt": credentials.CA,
		},
	}
	w := newWorld(t, Options{Reader: secretReader{types.NamespacedName{Namespace: "ops", Name: "keys"}, secret}},
		func(context.Context) error { return nil })
	w.policy.Place, w.policy.Credentials = place, types.NamespacedName{Namespace: "ops", Name: "keys"}
	for range 2 {
		if message, err := w.upgrade(t.Context(), "v1.36.3"); err != nil || !strings.Contains(message, "was verified") {
			t.Errorf("%q, %v", message, err)
		}
	}
	if len(s.objects) != 2 || w.takes.Load() != 1 {
		t.Errorf("%d objects of %d backups", len(s.objects), w.takes.Load())
	}
	// An unavailable store counts as a failed attempt.
	s.status = http.StatusServiceUnavailable
	if _, err := w.upgrade(t.Context(), "v1.36.4"); err == nil ||
		!strings.Contains(err.Error(), "(try 1) and will be retried: listing backups in bucket backups: it answers 503") {
		t.Errorf("error %v", err)
	}
	w.policy.Credentials.Name = "others"
	if _, err := w.upgrade(t.Context(), "v1.36.5"); err == nil ||
		!strings.Contains(err.Error(), "reading Secret ops/others with the keys of bucket backups") {
		t.Errorf("error %v", err)
	}
}

// secretReader reads one Secret.
type secretReader struct {
	name   types.NamespacedName
	secret *corev1.Secret
}

func (r secretReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if key != r.name {
		return errors.New("there is no such Secret")
	}
	r.secret.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (secretReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("Secrets are not listed")
}
