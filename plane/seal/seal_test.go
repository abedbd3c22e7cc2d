package seal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// memory is an in-memory etcd that fails at a chosen call.
type memory struct {
	values map[string][]byte
	failAt int // 0: never
	calls  int
}

var errBroken = errors.New("broken")

func (m *memory) call() error {
	if m.calls++; m.calls == m.failAt {
		return errBroken
	}
	return nil
}

func (m *memory) Keys(_ context.Context, prefix string) (keys []string, err error) {
	for key := range m.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, m.call()
}

func (m *memory) Get(_ context.Context, key string) ([]byte, int64, error) {
	return m.values[key], 1, m.call()
}

func (m *memory) Replace(_ context.Context, key string, value []byte, _ int64) error {
	if err := m.call(); err != nil {
		return err
	}
	m.values[key] = value
	return nil
}

// values returns the data in etcd of an earlier version of the plane, which did not encrypt.
func values() *memory {
	return &memory{values: map[string][]byte{
		"/registry/secrets/default/demo-kubeconfig":                            []byte("k8s\x00 the kubeconfig"),
		"/registry/secrets/other/demo-kubeconfig":                              []byte("k8s\x00 another one"),
		"/registry/bootstrap.cluster.x-k8s.io/kubeadmconfigs/default/demo-x":   []byte(`{"token":"abcdef"}`),
		"/registry/configmaps/default/open":                                    []byte("k8s\x00 a ConfigMap"),
		"/registry/secretstores.example.com/default/of-another-kind":           []byte("k8s\x00 another kind"),
		"/registry/controlplane.cluster.x-k8s.io/kubeadmcontrolplanes/d/empty": {},
	}}
}

func open(t *testing.T, dir string, fresh bool) *Ring {
	t.Helper()
	ring, err := Open(dir, fresh, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// check checks that everything confidential, and nothing else, is encrypted with the first key and unchanged.
func check(t *testing.T, ring *Ring, got *memory) {
	t.Helper()
	for key, plain := range values().values {
		value, secret := got.values[key], false
		for _, prefix := range Prefixes() {
			secret = secret || strings.HasPrefix(key, prefix)
		}
		if !secret {
			if !bytes.Equal(value, plain) {
				t.Errorf("the value of %s was changed", key)
			}
			continue
		}
		sealed, ok := bytes.CutPrefix(value, []byte("k8s:enc:secretbox:v1:"+ring.Keys[0].Name+":"))
		if !ok || len(plain) > 0 && bytes.Contains(value, plain) {
			t.Errorf("the value of %s is not encrypted with the first key: %q", key, value)
			continue
		}
		if opened, err := ring.Keys[0].open(sealed); err != nil || !bytes.Equal(opened, plain) {
			t.Errorf("the decrypted value of %s is %q, error %v", key, opened, err)
		}
	}
}

// TestRewriteConverges makes each call to etcd fail once, in a migration and in a rotation. The second attempt must
// have the same result as an attempt without a failure.
func TestRewriteConverges(t *testing.T) {
	for failAt := 0; failAt < 25; failAt++ {
		dir, etcd := filepath.Join(t.TempDir(), "encryption"), values()
		for _, step := range []string{"migration", "rotation"} {
			etcd.calls, etcd.failAt = 0, failAt
			if step == "rotation" {
				if _, err := Request(dir); err != nil {
					t.Fatal(err)
				}
			}
			for try := 0; ; try++ {
				ring := open(t, dir, false)
				if _, err := ring.Add(); err != nil {
					t.Fatal(err)
				}
				if !ring.Pending() {
					t.Fatalf("%s: no rewrite is pending", step)
				}
				_, err := ring.Rewrite(t.Context(), etcd, nil)
				if errors.Is(err, errBroken) && try == 0 {
					continue
				}
				if err := errors.Join(err, ring.Done()); err != nil {
					t.Fatal(err)
				}
				break
			}
			ring := open(t, dir, false)
			check(t, ring, etcd)
			if ring.Pending() || !ring.Remnants || len(ring.Keys) != 1 {
				t.Errorf("%s, failed at call %d: pending %v, remnants %v, %d keys", step, failAt, ring.Pending(),
					ring.Remnants, len(ring.Keys))
			}
		}
	}
}

// TestRewriteNeedsEachKey: a lost key file is not replaced by a new one while there is data that needs the old one.
func TestRewriteNeedsEachKey(t *testing.T) {
	etcd := values()
	before := open(t, filepath.Join(t.TempDir(), "lost"), false)
	if _, err := before.Rewrite(t.Context(), etcd, nil); err != nil {
		t.Fatal(err)
	}
	etcd.values["/registry/secrets/a/first"] = []byte("not encrypted")
	for name, spoil := range map[string]func(dir string){
		"the key file was lost": func(string) {},
		"the key file of another plane": func(dir string) {
			if err := open(t, dir, true).Save(); err != nil {
				t.Fatal(err)
			}
			ring := open(t, dir, false)
			ring.Sealed = nil
			if err := ring.Save(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "encryption")
			spoil(dir)
			_, missing := os.Stat(filepath.Join(dir, ringFile))
			_, err := open(t, dir, false).Rewrite(t.Context(), etcd, nil)
			if err == nil || !strings.Contains(err.Error(), "restore that file") {
				t.Errorf("got %v", err)
			}
			if string(etcd.values["/registry/secrets/a/first"]) != "not encrypted" {
				t.Error("a value was changed although another one can't be decrypted")
			}
			if _, now := os.Stat(filepath.Join(dir, ringFile)); errors.Is(missing, fs.ErrNotExist) && now == nil {
				t.Error("a new key file was saved")
			}
		})
	}
}

func TestResealRefusesWhatItDoesNotUnderstand(t *testing.T) {
	ring := open(t, t.TempDir(), true)
	good, err := ring.Keys[0].seal([]byte("plain"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := newKey(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ring.Keys = []Key{other, ring.Keys[0]}
	for name, c := range map[string]struct {
		value []byte
		want  string
	}{
		"a value encrypted with another key of the ring": {good, ""},
		"a value that was cut off":                       {good[:len(good)-30], "truncated"},
		"a value that was changed": {
			append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1), "was changed",
		},
		"a value encrypted by another provider": {[]byte("k8s:enc:aescbc:v1:key:xx"), "does not know"},
		"a value encrypted with an unknown key": {[]byte("k8s:enc:secretbox:v1:mine:xx"), `the key "mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, changed, err := ring.reseal(c.value)
			if c.want == "" && (err != nil || !changed) ||
				c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("reseal returned changed %v, error %v", changed, err)
			}
		})
	}
}

func TestRing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "encryption")
	if _, err := Request(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("requesting a rotation before there is a key: got error %v, want fs.ErrNotExist", err)
	}
	ring := open(t, dir, true)
	if ring.Pending() {
		t.Error("without data, a rewrite is pending")
	}
	if err := errors.Join(ring.Ensure(), ring.Ensure()); err != nil {
		t.Fatal(err)
	}
	path, err := ring.WriteConfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(config), "identity") || strings.Count(string(config), "name:") != 1 {
		t.Errorf("the API server's configuration is\n%s%v", config, err)
	}
	// After a kill between creating the key and removing the request, no second key is created.
	replaced, err := Request(dir)
	if err != nil || replaced != ring.Keys[0].Name {
		t.Fatalf("Request returned the key %q, error %v", replaced, err)
	}
	request, err := os.ReadFile(filepath.Join(dir, requestFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		ring = open(t, dir, false)
		if added, err := ring.Add(); added != want || err != nil || len(ring.Keys) != 2 || !ring.Pending() {
			t.Errorf("Add returned %v, error %v; the ring has %d keys", added, err, len(ring.Keys))
		}
		if err := os.WriteFile(filepath.Join(dir, requestFile), request, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{ringFile, ConfigFile, requestFile, "."} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may access %s, with mode %v, error %v", name, info.Mode(), err)
		}
	}
	for name, content := range map[string]string{
		"empty": "", "no key": "{}", "a short key": `{"keys":[{"name":"a","secret":"YWJj"}]}`, "no name": `{"keys":[{}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, ringFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, false, nil); err == nil || !strings.Contains(err.Error(), "restore that file") {
			t.Errorf("%s: got error %v, want one that says to restore the file", name, err)
		}
	}
}
