//go:build linux

package enrol

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/agent"
	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/enroll"
	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
)

// week is how long the hosts of these tests were asleep.
const week = 7 * 24 * time.Hour

// signer returns the key that signs the API server's tokens.
func signer(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	private, _ := api.TokenKeys()
	key, err := keyutil.PrivateKeyFromFile(private)
	if err != nil {
		t.Fatal(err)
	}
	return key.(*ecdsa.PrivateKey)
}

// aged returns a token as the API server would have issued it some time ago: it shifts the token's times and signs it
// again.
func aged(t *testing.T, text string, ago time.Duration, key *ecdsa.PrivateKey) string {
	t.Helper()
	parts := strings.Split(text, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(string(payload)))
	decoder.UseNumber()
	if err := decoder.Decode(&claims); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"iat", "nbf", "exp"} {
		at, err := claims[name].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		claims[name] = at - int64(ago/time.Second)
	}
	if payload, err = json.Marshal(claims); err != nil {
		t.Fatal(err)
	}
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// sleeper returns a computer that has enrolled under a name, and its token, which expired a week ago.
func (w *world) sleeper(t *testing.T, hardware int, name string) (*computer, config.Config, string) {
	t.Helper()
	c := w.newComputer(t, hardware)
	if err := c.enroll(t.Context(), w.credential(t, nil), name); err != nil {
		t.Fatal(err)
	}
	conf, err := config.Read(c.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	return c, conf, aged(t, conf.Token, week, signer(t))
}

// TestAHostComesBack: an agent whose token expired a week ago reports again, without a person's help.
func TestAHostComesBack(t *testing.T) {
	w := newWorld(t)
	c, conf, last := w.sleeper(t, 1, "laptop")
	data, err := os.ReadFile(c.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	data = []byte(strings.Replace(string(data), conf.Token, last, 1))
	if err := errors.Join(os.WriteFile(c.ConfigPath, data, 0o600),
		os.WriteFile(filepath.Join(c.StateDir, "token"), []byte(last+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := w.reads(t.Context(), c.identity(t), "laptop"); !apierrors.IsUnauthorized(err) {
		t.Fatalf("the API server does not refuse an expired token: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, c.ConfigPath, "test", "", slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if h := w.host(t, "laptop"); h.Status.Agent != nil && h.Status.Agent.Epoch != nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the host has not come back")
		}
	}
}

// TestWhoDoesNotComeBack: if anything is wrong with a computer or its last token, the plane refuses the computer, and a
// person must decide.
func TestWhoDoesNotComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, w *world, conf *config.Config, last *string)
		want   string
	}{
		"the key of another host": {func(t *testing.T, w *world, conf *config.Config, _ *string) {
			_, other, _ := w.sleeper(t, 2, "other")
			conf.StateDir = other.StateDir
		}, enrolment.ReasonGone},
		"the token of another host": {func(t *testing.T, w *world, _ *config.Config, last *string) {
			_, _, *last = w.sleeper(t, 2, "other")
		}, enrolment.ReasonGone},
		"a token that somebody else has signed": {func(t *testing.T, _ *world, conf *config.Config, last *string) {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			*last = aged(t, conf.Token, week, key)
		}, enrolment.ReasonCredential},
		"a token without signature": {func(_ *testing.T, _ *world, _ *config.Config, last *string) {
			*last = (*last)[:strings.LastIndexByte(*last, '.')+1]
		}, enrolment.ReasonCredential},
		"a host that was removed": {func(t *testing.T, w *world, _ *config.Config, _ *string) {
			if err := admin.Delete(t.Context(), w.host(t, "laptop")); err != nil {
				t.Fatal(err)
			}
		}, enrolment.ReasonGone},
		"a host that was removed and registered again": {func(t *testing.T, w *world, _ *config.Config, _ *string) {
			old := w.host(t, "laptop")
			if err := admin.Delete(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			again := &infrav1.CapstanHost{ObjectMeta: metav1.ObjectMeta{
				Namespace: old.Namespace, Name: old.Name, Annotations: old.Annotations,
			}, Spec: old.Spec}
			if err := errors.Join(admin.Create(t.Context(), again), w.endEpoch(t, 0)); err != nil {
				t.Fatal(err)
			}
		}, enrolment.ReasonGone},
		"an abandoned host": {func(t *testing.T, w *world, _ *config.Config, _ *string) {
			h := w.host(t, "laptop")
			id := "capstan://" + w.namespace + "/laptop/u"
			h.Annotations[infrav1.AbandonAnnotation] = id
			h.Spec.Claim = &infrav1.HostClaim{Machine: "m", MachineUID: "u", Cluster: "c", Hostname: "m",
				ProviderID: id, KubernetesVersion: "v1.36.3", Released: true}
			if err := admin.Update(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}, enrolment.ReasonGone},
		"a claim that has ended": {func(t *testing.T, w *world, _ *config.Config, _ *string) {
			h := w.host(t, "laptop")
			h.Spec.Claim = &infrav1.HostClaim{Machine: "m", MachineUID: "u", Cluster: "c", Hostname: "m",
				ProviderID: "capstan://" + w.namespace + "/laptop/u", KubernetesVersion: "v1.36.3"}
			if err := admin.Update(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			h.Spec.Claim, h.Spec.Epoch = nil, 1
			if err := admin.Update(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}, enrolment.ReasonGone},
		"an identity that a person has ended": {func(t *testing.T, w *world, _ *config.Config, _ *string) {
			if err := w.endEpoch(t, 0); err != nil {
				t.Fatal(err)
			}
		}, enrolment.ReasonGone},
		"a host that was away for 100 days": {func(_ *testing.T, w *world, _ *config.Config, _ *string) {
			w.clock.SetTime(time.Now().Add(100*24*time.Hour - week))
		}, enrolment.ReasonGone},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, conf, last := w.sleeper(t, 1, "laptop")
			before := last
			c.change(t, w, &conf, &last)
			token, err := enroll.Return(t.Context(), conf, last, "test")
			reason(t, err, c.want)
			if token != "" || strings.Contains(err.Error(), before) {
				t.Errorf("want no token, and an error without the last token, got %q, %v", token, err)
			}
		})
	}
}

// endEpoch ends an epoch of host laptop by deleting its Secret (infrav1.EpochSecret).
func (w *world) endEpoch(t *testing.T, epoch int64) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: infrav1.EpochSecret("laptop", epoch),
	}}
	return client.IgnoreNotFound(admin.Delete(t.Context(), secret))
}

// TestComingBackIsLimited: a host may come back five times, and then once a minute. Other hosts are not delayed.
func TestComingBackIsLimited(t *testing.T) {
	w := newWorld(t)
	_, conf, last := w.sleeper(t, 1, "laptop")
	_, other, otherLast := w.sleeper(t, 2, "other")
	for range 5 {
		if _, err := enroll.Return(t.Context(), conf, last, "test"); err != nil {
			t.Fatal(err)
		}
	}
	_, err := enroll.Return(t.Context(), conf, last, "test")
	reason(t, err, enrolment.ReasonBusy)
	if _, err := enroll.Return(t.Context(), other, otherLast, "test"); err != nil {
		t.Errorf("another host is delayed: %v", err)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	if _, err := enroll.Return(t.Context(), conf, last, "test"); err != nil {
		t.Errorf("a minute later, the host still may not come back: %v", err)
	}
}
