package clusterctl

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/test/apiserver"
)

// TestCallOffCleansUp: wherever an offer or a call-off was interrupted, another call-off leaves nothing behind on
// either side.
func TestCallOffCleansUp(t *testing.T) {
	left := new(int) // number of writes that still succeed
	s := &sides{from: &failing{apiServer(t), left}, to: &failing{apiServer(t), left}, target: "there"}
	host := &infrav1.CapstanHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "h1"},
		Spec: infrav1.CapstanHostSpec{Zone: "zone-a", Claim: &infrav1.HostClaim{
			Cluster: "c1", Machine: "m1", MachineUID: "1", Hostname: "m1", ProviderID: "capstan://blue/h1/1",
		}},
	}
	never := func() { *left = 1 << 30 }
	never()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.from.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}))
	must(s.from.Create(t.Context(), host))
	h := HandOver{Namespace: "blue", Timeout: time.Minute}
	offer := func() error { return s.offer(t.Context(), host, "https://there:1", "https://there:2", []byte("ca")) }
	callOff := func() error { _, err := s.callOff(t.Context(), h); return err }

	// rounds repeats an operation, interrupts it at a later write each time, and calls off the offer. It returns how
	// many writes the operation makes.
	rounds := func(operation string, prepare, run func() error) (n int) {
		for ; ; n++ {
			never()
			must(prepare())
			*left = n
			err := run()
			never()
			if err == nil {
				break
			}
			if !errors.Is(err, errFailing) {
				t.Fatalf("%s failed at write %d: %v", operation, n, err)
			}
			must(callOff())
			if rest := s.rest(t, host); len(rest) > 0 {
				t.Errorf("after %s was interrupted at write %d and called off, %v is left", operation, n, rest)
			}
		}
		return n
	}
	if n := rounds("an offer", func() error { return nil }, offer); n < 7 {
		t.Errorf("an offer makes only %d writes", n)
	}
	made := &corev1.Secret{}
	must(s.from.Get(t.Context(), client.ObjectKey{Namespace: "blue", Name: "h1" + infrav1.OfferSecretSuffix}, made))
	if at := string(made.Data[infrav1.OfferEnrolmentKey]); at != "https://there:2" {
		t.Errorf("the offer names the enrolment server %q", at)
	}
	if n := rounds("a call-off", offer, callOff); n < 6 {
		t.Errorf("a call-off makes only %d writes", n)
	}
	if rest := s.rest(t, host); len(rest) > 0 {
		t.Errorf("after a call-off, %v is left", rest)
	}
	must(offer())
	for _, want := range []int{1, 0} {
		if offers, err := s.callOff(t.Context(), h); err != nil || offers != want {
			t.Errorf("%d offers were called off, want %d: %v", offers, want, err)
		}
	}
}

// rest returns what is left of an offer.
func (s *sides) rest(t *testing.T, host *infrav1.CapstanHost) (names []string) {
	t.Helper()
	has := func(c client.Client, o client.Object, name string) {
		err := c.Get(t.Context(), client.ObjectKey{Namespace: host.Namespace, Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if h, ok := o.(*infrav1.CapstanHost); err == nil && (!ok || h.Annotations[infrav1.OfferAnnotation] != "") {
			names = append(names, name)
		}
	}
	has(s.from, &infrav1.CapstanHost{}, host.Name)
	has(s.from, &corev1.Secret{}, host.Name+infrav1.OfferSecretSuffix)
	has(s.to, &corev1.ServiceAccount{}, infrav1.IdentityPrefix+host.Name)
	has(s.to, &rbacv1.Role{}, infrav1.IdentityPrefix+host.Name)
	has(s.to, &rbacv1.RoleBinding{}, infrav1.IdentityPrefix+host.Name)
	has(s.to, &coordinationv1.Lease{}, host.Name)
	return names
}

// apiServer starts an API server with our kinds, and returns an administrator's client.
func apiServer(t *testing.T) client.Client {
	t.Helper()
	ours, err := apiserver.Capstan()
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start(apiserver.Options{CRDs: ours})
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping the API server: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errFailing = errors.New("the power went out")

// failing is a client whose writes fail once left is used up.
type failing struct {
	client.Client
	left *int
}

// do makes a write if any are left.
func (f *failing) do(write func() error) error {
	if *f.left == 0 {
		return errFailing
	}
	*f.left--
	return write()
}

func (f *failing) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	return f.do(func() error { return f.Client.Create(ctx, o, options...) })
}

func (f *failing) Apply(ctx context.Context, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	return f.do(func() error { return f.Client.Apply(ctx, o, options...) })
}

func (f *failing) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	return f.do(func() error { return f.Client.Patch(ctx, o, patch, options...) })
}

func (f *failing) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	return f.do(func() error { return f.Client.Delete(ctx, o, options...) })
}

func (f *failing) SubResource(name string) client.SubResourceClient {
	return failingPart{f.Client.SubResource(name), f}
}

type failingPart struct {
	client.SubResourceClient
	whole *failing
}

func (f failingPart) Create(ctx context.Context, o, part client.Object,
	options ...client.SubResourceCreateOption) error {
	return f.whole.do(func() error { return f.SubResourceClient.Create(ctx, o, part, options...) })
}
