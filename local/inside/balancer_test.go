package inside

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/local"
)

// fakeBalancers is a dock with one balancer, which may have an error; calls fail with err if it is set.
type fakeBalancers struct {
	balancer dock.Balancer
	relay    string
	err      error
}

func (f *fakeBalancers) EnsureBalancer(_ context.Context, name string) (dock.Balancer, error) {
	if f.err != nil {
		return dock.Balancer{}, f.err
	}
	f.balancer.Name, f.balancer.Address, f.balancer.Port = name, "10.231.16.1", 6443
	return f.balancer, nil
}

func (f *fakeBalancers) SetBackends(_ context.Context, name string, backends []string) error {
	if name == f.balancer.Name {
		f.balancer.Backends = backends
	}
	return f.err
}

func (f *fakeBalancers) DeleteBalancer(_ context.Context, name string) error {
	if name == f.balancer.Name && f.err == nil {
		f.balancer = dock.Balancer{}
	}
	return f.err
}

func (f *fakeBalancers) DeleteRelay(_ context.Context, name string) error {
	if name == f.relay {
		f.relay = ""
	}
	return nil
}

func TestBalancer(t *testing.T) {
	cluster := types.NamespacedName{Namespace: "blue", Name: "demo"}
	fake := &fakeBalancers{relay: local.RelayName("blue", "demo")}
	b := balancer{fake}
	host, port, err := b.Ensure(t.Context(), cluster)
	if err != nil || host != "10.231.16.1" || port != 6443 {
		t.Fatalf("got %s:%d, %v", host, port, err)
	}
	if err := b.SetBackends(t.Context(), cluster, []string{"10.231.1.1:6443"}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(fake.balancer.Backends, []string{"10.231.1.1:6443"}) {
		t.Errorf("the backends are %q", fake.balancer.Backends)
	}
	for _, foreign := range []string{
		"10.231.0.1:2379", "127.0.0.1:6443", "8.8.8.8:6443", "10.231.16.1:6443", "[::1]:6443", "x:1", "",
	} {
		backends := []string{"10.231.1.1:6443", foreign}
		if err := b.SetBackends(t.Context(), cluster, backends); err == nil || len(fake.balancer.Backends) != 1 {
			t.Errorf("the backend %q was accepted; the backends are %q", foreign, fake.balancer.Backends)
		}
	}
	fake.balancer.Error = "the port is taken"
	if _, _, err := b.Ensure(t.Context(), cluster); err == nil || err.Error() != fake.balancer.Error {
		t.Errorf("a balancer that does not work: got error %v", err)
	}

	fake.err = errors.New("the dock is shutting down")
	if _, _, err := b.Ensure(t.Context(), cluster); !errors.Is(err, fake.err) {
		t.Errorf("a dock that fails: got error %v, want the dock's error", err)
	}
	if err := b.Delete(t.Context(), cluster); !errors.Is(err, fake.err) || fake.relay != "" {
		t.Errorf("the balancer could not be deleted: the relay %q is left, error %v", fake.relay, err)
	}
	fake.err = nil
	if err := b.Delete(t.Context(), cluster); err != nil || fake.balancer.Name != "" {
		t.Errorf("the balancer was not deleted: %+v, error %v", fake.balancer, err)
	}
}
