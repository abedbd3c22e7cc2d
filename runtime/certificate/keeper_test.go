package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// memory is a store that fails on request.
type memory struct {
	mu      sync.Mutex
	bundle  Bundle
	version int
	fail    error
	saves   int
	before  func() // called in the middle of Save
}

func (m *memory) Load(context.Context) (Bundle, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bundle, strings.Repeat("x", m.version), m.fail
}

func (m *memory) Save(_ context.Context, b Bundle, version string) error {
	if m.before != nil {
		m.before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if len(version) != m.version {
		return ErrConflict
	}
	m.bundle = b
	m.version++
	m.saves++
	return nil
}

const day = 24 * time.Hour

func testOptions(now *time.Time) Options {
	return Options{
		Hosts: []string{"extension.default.svc", "127.0.0.1"}, Lifetime: 30 * day, AuthorityLifetime: 300 * day,
		Overlap: 2 * day,
		Now:     func() time.Time { return *now },
	}
}

// trusts checks that a caller with these authorities accepts the server's certificate at that time.
func trusts(t *testing.T, authorities []byte, k *Keeper, host string, at time.Time) error {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		t.Fatal("there are no authorities")
	}
	pair, err := k.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: pool, DNSName: host, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}

func newKeeper(t *testing.T, store Store, o Options) *Keeper {
	t.Helper()
	k, err := New(t.Context(), store, o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The test renews once a day for 1000 days: a caller whose authorities are up to a day old always trusts the served
// certificate.
func TestRotationLeavesNoGap(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	store := &memory{}
	k := newKeeper(t, store, testOptions(&now))
	yesterday := k.Authorities()
	leaves, authorities := map[string]bool{}, map[string]bool{}
	for range 1000 {
		now = now.Add(day)
		if err := k.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"extension.default.svc", "127.0.0.1"} {
			if err := trusts(t, yesterday, k, host, now); err != nil {
				t.Fatalf("on %s: %v", now.Format(time.DateOnly), err)
			}
		}
		if n := strings.Count(string(k.Authorities()), "BEGIN"); n > 2 {
			t.Fatalf("on %s there are %d authorities", now.Format(time.DateOnly), n)
		}
		yesterday = k.Authorities()
		pair, _ := k.GetCertificate(nil)
		leaves[pair.Leaf.SerialNumber.String()], authorities[pair.Leaf.Issuer.String()] = true, true
	}
	// A certificate is replaced after 20 of its 30 days, an authority after 200 of its 300 days.
	if len(leaves) < 48 || len(leaves) > 62 || len(authorities) < 4 {
		t.Errorf("%d certificates of %d authorities", len(leaves), len(authorities))
	}
}

func TestNothingIsRenewedEarly(t *testing.T) {
	now := time.Now()
	store := &memory{}
	k := newKeeper(t, store, testOptions(&now))
	for range 10 {
		now = now.Add(day)
		if err := k.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if store.saves != 1 {
		t.Errorf("the store was written %d times", store.saves)
	}
}

// Replicas that start at once agree on one certificate.
func TestReplicasAgree(t *testing.T) {
	now := time.Now()
	store := &memory{}
	first := newKeeper(t, store, testOptions(&now))
	second := newKeeper(t, store, testOptions(&now))
	a, _ := first.GetCertificate(nil)
	b, _ := second.GetCertificate(nil)
	if !a.Leaf.Equal(b.Leaf) || store.saves != 1 {
		t.Errorf("two certificates, %d writes", store.saves)
	}
	// Somebody else renews between our read and our write: their certificate is used.
	now = now.Add(25 * day)
	var once sync.Once
	store.before = func() {
		once.Do(func() {
			store.before = nil
			if err := second.Renew(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if err := first.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, _ = first.GetCertificate(nil)
	b, _ = second.GetCertificate(nil)
	if !a.Leaf.Equal(b.Leaf) || store.saves != 2 {
		t.Errorf("two certificates, %d writes", store.saves)
	}
}

func TestWhatCanNotBeReadIsMadeAnew(t *testing.T) {
	now := time.Now()
	good := &memory{}
	newKeeper(t, good, testOptions(&now))
	other := &memory{}
	newKeeper(t, other, testOptions(&now))
	for name, spoil := range map[string]func(Bundle){
		"no certificate":       func(b Bundle) { delete(b, CertificateKey) },
		"another key":          func(b Bundle) { b[PrivateKeyKey] = other.bundle[PrivateKeyKey] },
		"another authority":    func(b Bundle) { b[AuthoritiesKey] = other.bundle[AuthoritiesKey] },
		"junk as an authority": func(b Bundle) { b[AuthoritiesKey] = []byte("junk") },
		"no key of the CA":     func(b Bundle) { b[AuthorityKeysKey] = nil },
		"a certificate of another CA": func(b Bundle) {
			b[CertificateKey], b[PrivateKeyKey] = other.bundle[CertificateKey], other.bundle[PrivateKeyKey]
		},
	} {
		store := &memory{bundle: Bundle{}, version: 1}
		for key, data := range good.bundle {
			store.bundle[key] = data
		}
		spoil(store.bundle)
		k := newKeeper(t, store, testOptions(&now))
		if err := trusts(t, k.Authorities(), k, "127.0.0.1", now); err != nil || store.saves != 1 {
			t.Errorf("%s: %d writes, %v", name, store.saves, err)
		}
	}
}

func TestOtherHostsMakeAnotherCertificate(t *testing.T) {
	now := time.Now()
	store := &memory{}
	newKeeper(t, store, testOptions(&now))
	options := testOptions(&now)
	options.Hosts = append(options.Hosts, ServiceHosts("other", "default")...)
	k := newKeeper(t, store, options)
	if err := trusts(t, k.Authorities(), k, "other.default.svc", now); err != nil {
		t.Error(err)
	}
}

// While the store fails, the last good certificate is served and Run continues.
func TestRunGoesOnWhenTheStoreFails(t *testing.T) {
	now := time.Now()
	var clock sync.Mutex
	store := &memory{}
	options := testOptions(&now)
	options.Check = time.Millisecond
	options.Now = func() time.Time { clock.Lock(); defer clock.Unlock(); return now }
	k := newKeeper(t, store, options)
	before, _ := k.GetCertificate(nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	store.mu.Lock()
	store.fail = errors.New("the API server is away")
	store.mu.Unlock()
	clock.Lock()
	now = now.Add(25 * day)
	clock.Unlock()
	if pair, _ := k.GetCertificate(nil); !pair.Leaf.Equal(before.Leaf) {
		t.Error("the certificate changed without a store")
	}
	store.mu.Lock()
	store.fail = nil
	store.mu.Unlock()
	deadline := time.After(20 * time.Second)
	for {
		if pair, _ := k.GetCertificate(nil); !pair.Leaf.Equal(before.Leaf) {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the certificate was not renewed when the store was back")
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNewReportsWhatCanNotWork(t *testing.T) {
	now := time.Now()
	for want, change := range map[string]func(*Options){
		"there are no Hosts":        func(o *Options) { o.Hosts = nil },
		"may be negative":           func(o *Options) { o.Overlap = -1 },
		"outlives its authority":    func(o *Options) { o.AuthorityLifetime = 50 * day },
		"without scheme and port":   func(o *Options) { o.Hosts = []string{"https://x"} },
		"\"a b\" is not valid: giv": func(o *Options) { o.Hosts = []string{"a b"} },
	} {
		options := testOptions(&now)
		change(&options)
		if _, err := New(t.Context(), &memory{}, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
	away := errors.New("away")
	if _, err := New(t.Context(), &memory{fail: away}, testOptions(&now)); !errors.Is(err, away) {
		t.Errorf("without a store: %v", err)
	}
}

func TestInDirectory(t *testing.T) {
	now := time.Now()
	directory := filepath.Join(t.TempDir(), "new")
	k := newKeeper(t, InDirectory(directory), testOptions(&now))
	again := newKeeper(t, InDirectory(directory), testOptions(&now))
	a, _ := k.GetCertificate(nil)
	b, _ := again.GetCertificate(nil)
	if !a.Leaf.Equal(b.Leaf) {
		t.Error("a second start made another certificate")
	}
	entries, err := os.ReadDir(directory)
	if err != nil || len(entries) != 4 {
		t.Errorf("%v, %v", entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", entry.Name(), info.Mode(), err)
		}
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(directory, CertificateKey),
		filepath.Join(directory, PrivateKeyKey)); err != nil {
		t.Error(err)
	}
}
