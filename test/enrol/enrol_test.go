//go:build linux

package enrol

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/agent/config"
	"github.com/capstan-dev/capstan/agent/enroll"
	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/internal/enrolment"
	"github.com/capstan-dev/capstan/local/credential"
)

// reason fails the test unless err is a refusal with this reason.
func reason(t *testing.T, err error, want string) {
	t.Helper()
	var refusal *enrolment.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != want {
		t.Errorf("got %v, want a refusal: %s", err, want)
	}
}

// identity returns a client with a computer's token.
func (c *computer) identity(t *testing.T) client.Client {
	t.Helper()
	conf, err := config.Read(c.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	own, err := client.New(&rest.Config{
		Host: conf.Server, BearerToken: conf.Token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(conf.CAData)},
	}, client.Options{Scheme: scheme, Mapper: admin.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// reads returns the error of reading a host with a client.
func (w *world) reads(ctx context.Context, c client.Client, name string) error {
	return c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &infrav1.CapstanHost{})
}

// TestAComputerBecomesAHost: the host has the zone and labels of the credential, and the computer has only its own
// host's rights.
func TestAComputerBecomesAHost(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	text := w.credential(t, func(l *credential.Limits) {
		l.Name, l.Zone, l.Uses, l.Labels = "rack1-*", "rack1", 2, map[string]string{"disk": "ssd"}
	})
	first, second := w.newComputer(t, 1), w.newComputer(t, 2)
	for name, c := range map[string]*computer{"rack1-01": first, "rack1-02": second} {
		if err := c.enroll(ctx, text, name); err != nil {
			t.Fatal(err)
		}
	}
	h := w.host(t, "rack1-01")
	if h.Spec.Zone != "rack1" || h.Labels["disk"] != "ssd" || h.Spec.Supplier != "" || h.Spec.Claim != nil {
		t.Errorf("want a free, owned host in rack1 with label disk, got %+v %+v", h.ObjectMeta, h.Spec)
	}
	own := first.identity(t)
	if err := w.reads(ctx, own, "rack1-01"); err != nil {
		t.Errorf("the computer can't read its own host: %v", err)
	}
	if err := w.reads(ctx, own, "rack1-02"); !apierrors.IsForbidden(err) {
		t.Errorf("the computer may read another host: %v", err)
	}
	if err := own.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the computer may list Secrets, which include credentials: %v", err)
	}
	h.Labels["disk"] = "tape"
	if err := own.Update(ctx, h); !apierrors.IsForbidden(err) {
		t.Errorf("the computer may change the labels of its host: %v", err)
	}
	for _, path := range []string{first.ConfigPath, first.StateDir + "/" + enroll.KeyFile} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if data, err := os.ReadFile(first.ConfigPath); err != nil || strings.Contains(string(data), text) {
		t.Errorf("the configuration contains the credential, or can't be read: %v", err)
	}
	reason(t, w.newComputer(t, 3).enroll(ctx, text, "rack1-03"), enrolment.ReasonUsedUp)
	if n := w.hosts(t); n != 2 {
		t.Errorf("there are %d hosts, want 2", n)
	}
}

// TestTwiceIsHarmless: the same computer with the same credential is the same host, and does not use up the credential
// again.
func TestTwiceIsHarmless(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	text, c := w.credential(t, nil), w.newComputer(t, 1)
	if err := c.enroll(ctx, text, "a"); err != nil {
		t.Fatal(err)
	}
	before := w.host(t, "a")
	own := c.identity(t)
	for range 2 {
		if err := c.enroll(ctx, text, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if after := w.host(t, "a"); after.UID != before.UID || after.Spec.Epoch != before.Spec.Epoch {
		t.Errorf("the computer has become another host, or the epoch has changed: %+v", after)
	}
	if err := errors.Join(w.reads(ctx, own, "a"), w.reads(ctx, c.identity(t), "a")); err != nil {
		t.Errorf("the first or the last identity of the host does not work: %v", err)
	}
	reason(t, c.enroll(ctx, w.credential(t, nil), "b"), enrolment.ReasonTaken)
	if n := w.hosts(t); n != 1 {
		t.Errorf("one computer has become %d hosts", n)
	}
}

// TestNobodyTakesOverAHost: another computer gets neither the name nor the identity of an existing host, whatever it
// sends and whichever credential it has.
func TestNobodyTakesOverAHost(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	victim := w.newComputer(t, 1)
	used := w.credential(t, nil)
	if err := victim.enroll(ctx, used, "a"); err != nil {
		t.Fatal(err)
	}
	before := w.host(t, "a")
	reenroll := w.credential(t, func(l *credential.Limits) { l.Reenroll, l.Uses = true, 10 })
	thief, sameHardware := w.newComputer(t, 2), w.newComputer(t, 1)
	reason(t, thief.enroll(ctx, w.credential(t, nil), "a"), enrolment.ReasonTaken)
	reason(t, thief.enroll(ctx, reenroll, "a"), enrolment.ReasonTaken)
	reason(t, thief.enroll(ctx, used, "a"), enrolment.ReasonUsedUp)
	reason(t, sameHardware.enroll(ctx, used, "a"), enrolment.ReasonUsedUp)
	reason(t, sameHardware.enroll(ctx, w.credential(t, nil), "a"), enrolment.ReasonTaken)
	if after := w.host(t, "a"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the host has changed: %+v", after.ObjectMeta)
	}
	if err := w.reads(ctx, victim.identity(t), "a"); err != nil {
		t.Errorf("the host's own identity no longer works: %v", err)
	}
	local := &infrav1.CapstanHost{}
	local.Namespace, local.Name, local.Spec.Zone, local.Spec.Supplier = w.namespace, "host-01", "z", infrav1.SupplierDock
	if err := admin.Create(ctx, local); err != nil {
		t.Fatal(err)
	}
	reason(t, thief.enroll(ctx, reenroll, "host-01"), enrolment.ReasonTaken)
}

// TestAWipedHost: a reinstalled computer becomes its host again if the credential allows that and no machine is on the
// host. The previous identity ends.
func TestAWipedHost(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	old := w.newComputer(t, 1)
	if err := old.enroll(ctx, w.credential(t, nil), "a"); err != nil {
		t.Fatal(err)
	}
	before, own := w.host(t, "a"), old.identity(t)
	if err := w.reads(ctx, own, "a"); err != nil {
		t.Fatal(err)
	}
	h := before.DeepCopy()
	h.Spec.Claim = &infrav1.HostClaim{
		Machine:    "m",
		MachineUID: "u",
		Cluster:    "c",
		ProviderID: "capstan://x/a/u",
		Hostname:   "m",
	}
	if err := admin.Update(ctx, h); err != nil {
		t.Fatal(err)
	}
	wiped := w.newComputer(t, 1)
	reason(t, wiped.enroll(ctx, w.credential(t, nil), "a"), enrolment.ReasonTaken)
	text := w.credential(t, func(l *credential.Limits) { l.Reenroll = true })
	reason(t, wiped.enroll(ctx, text, "a"), enrolment.ReasonInUse)
	if err := w.reads(ctx, own, "a"); err != nil {
		t.Errorf("a refused request has ended the identity: %v", err)
	}

	// The reinstalled computer repeats its request, as at a first boot, and succeeds when the claim is released.
	wiped.Wait = time.Minute
	released := make(chan error, 1)
	wiped.Out = writerFunc(func(text string) {
		if strings.Contains(text, "not yet") {
			now := h.DeepCopy()
			now.Spec.Claim.Released = true
			err := admin.Patch(context.Background(), now, client.MergeFrom(h))
			select {
			case released <- err:
			default:
			}
		}
	})
	if err := wiped.enroll(ctx, text, "a"); err != nil {
		t.Fatal(err)
	}
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	after := w.host(t, "a")
	if after.UID != before.UID || after.Spec.Claim == nil {
		t.Errorf("the reinstalled computer has become another host, or the host has no claim any more: %+v", after)
	}
	if err := w.reads(ctx, wiped.identity(t), "a"); err != nil {
		t.Errorf("the new identity does not work: %v", err)
	}
	// For 10 s, the API server remembers that a token was valid.
	for limit := time.Now().Add(time.Minute); !apierrors.IsUnauthorized(w.reads(ctx, own, "a")); {
		if time.Now().After(limit) {
			t.Fatal("the previous identity still works")
		}
		time.Sleep(200 * time.Millisecond)
	}
	reason(t, old.enroll(ctx, w.credential(t, nil), "a"), enrolment.ReasonTaken)
}

// writerFunc is a function that implements io.Writer.
type writerFunc func(string)

func (f writerFunc) Write(data []byte) (int, error) { f(string(data)); return len(data), nil }

// TestAHostThatWasRegistered: a host registered by hand keeps its zone, and the first computer with a suitable
// credential becomes that host.
func TestAHostThatWasRegistered(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	h := &infrav1.CapstanHost{}
	h.Namespace, h.Name, h.Spec.Zone = w.namespace, "a", "rack9"
	if err := admin.Create(ctx, h); err != nil {
		t.Fatal(err)
	}
	c := w.newComputer(t, 1)
	reason(
		t,
		c.enroll(ctx, w.credential(t, func(l *credential.Limits) { l.Zone = "rack1" }), "a"),
		enrolment.ReasonZone,
	)
	labels := map[string]string{"disk": "ssd"}
	if err := c.enroll(ctx, w.credential(t, func(l *credential.Limits) { l.Labels = labels }), "a"); err != nil {
		t.Fatal(err)
	}
	after := w.host(t, "a")
	if after.UID != h.UID || after.Spec.Zone != "rack9" {
		t.Errorf("want the registered host with its zone, got %+v %+v", after.ObjectMeta, after.Spec)
	}
	if after.Labels["disk"] != "ssd" || after.Labels[infrav1.EnrolledLabel] != "true" {
		t.Errorf("the host has labels %v, want those of the credential and %s", after.Labels, infrav1.EnrolledLabel)
	}
	reason(t, w.newComputer(t, 2).enroll(ctx, w.credential(t, nil), "a"), enrolment.ReasonTaken)
}

// TestManyAtOnce: a credential enrolls no more hosts than it allows, and a name belongs to one computer, however many
// request it.
func TestManyAtOnce(t *testing.T) {
	const asking = 6
	for name, c := range map[string]struct {
		uses int
		host func(n int) string
	}{
		"one credential": {1, func(n int) string { return "a" + string(rune('0'+n)) }},
		"one name":       {asking, func(int) string { return "a" }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			text := w.credential(t, func(l *credential.Limits) { l.Uses = c.uses })
			var all sync.WaitGroup
			var enrolled atomic.Int32
			for n := range asking {
				computer := w.newComputer(t, n)
				all.Go(func() {
					err := computer.enroll(t.Context(), text, c.host(n))
					var refusal *enrolment.Refusal
					switch {
					case err == nil:
						enrolled.Add(1)
					case !errors.As(err, &refusal):
						t.Errorf("computer %d: %v", n, err)
					}
				})
			}
			all.Wait()
			if n := w.hosts(t); enrolled.Load() != 1 || n != 1 {
				t.Errorf("%d computers enrolled, and there are %d hosts, want 1", enrolled.Load(), n)
			}
		})
	}
}

// TestCredentialsThatDoNotWork: invalid credentials create no host, and leave only the key on the computer.
func TestCredentialsThatDoNotWork(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	revoked := w.credential(t, nil)
	id, _, err := enrolment.ParseCredential(revoked)
	if err != nil {
		t.Fatal(err)
	}
	if err := credential.Revoke(ctx, admin, id); err != nil {
		t.Fatal(err)
	}
	short := w.credential(t, func(l *credential.Limits) { l.Expires = time.Now().Add(2 * time.Second) })
	unknown, _ := enrolment.NewCredential()
	good := w.credential(t, func(l *credential.Limits) { l.Name = "rack1-*" })
	other, _ := enrolment.NewCredential()
	for name, c := range map[string]struct{ text, host, want string }{
		"revoked":                  {revoked, "a", enrolment.ReasonCredential},
		"unknown":                  {unknown, "a", enrolment.ReasonCredential},
		"another secret":           {good[:19] + other[19:], "rack1-1", enrolment.ReasonCredential},
		"another name":             {good, "rack2-1", enrolment.ReasonName},
		"the name of a local host": {good, "host-01", enrolment.ReasonName},
	} {
		computer := w.newComputer(t, 1)
		reason(t, computer.enroll(ctx, c.text, c.host), c.want)
		if _, err := os.Stat(computer.ConfigPath); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a configuration was written: %v", name, err)
		}
	}
	late := w.newComputer(t, 1)
	for limit := time.Now().Add(time.Minute); ; {
		err := late.enroll(ctx, short, "late")
		if err != nil || time.Now().After(limit) {
			reason(t, err, enrolment.ReasonExpired)
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// TestAStrangerHearsNothing: a computer with the hash of another authority sends nothing, and fails at once.
func TestAStrangerHearsNothing(t *testing.T) {
	w := newWorld(t)
	text := w.credential(t, nil)
	c := w.newComputer(t, 1)
	c.Ticket.CAHash, c.Wait = "sha256:"+strings.Repeat("0", 64), time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.enroll(ctx, text, "a"); !errors.Is(err, enrolment.ErrPin) {
		t.Errorf("got %v, want ErrPin", err)
	}
	if w.hosts(t) != 0 {
		t.Error("a host was created")
	}
	c.Ticket.CAHash = w.pin
	if err := c.enroll(ctx, text, "a"); err != nil {
		t.Errorf("with the right hash, the computer can't enroll: %v", err)
	}
}

// TestTheDirectoriesOfAConfigurationStay: the directories in a configuration stay when a host enrolls again.
func TestTheDirectoriesOfAConfigurationStay(t *testing.T) {
	w := newWorld(t)
	c := w.newComputer(t, 1)
	text := w.credential(t, nil)
	if err := c.enroll(t.Context(), text, "a"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), config.DefaultBundlesDir, "/srv/bundles", 1)
	if err := os.WriteFile(c.ConfigPath, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	c.StateDir = ""
	if err := c.enroll(t.Context(), text, "a"); err != nil {
		t.Fatal(err)
	}
	if conf, err := config.Read(c.ConfigPath); err != nil || conf.BundlesDir != "/srv/bundles" ||
		conf.StateDir != c.dir+"/state" {
		t.Errorf("the directories in the configuration have changed: %+v, %v", conf, err)
	}
}
