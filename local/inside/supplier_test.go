package inside

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/dock"
)

// fakeHosts is a dock that keeps hosts in memory; it fails with err if it is set.
type fakeHosts struct {
	hosts []dock.HostSpec
	err   error
}

func (f *fakeHosts) EnsureHost(_ context.Context, spec dock.HostSpec) (dock.Host, error) {
	if f.err != nil {
		return dock.Host{}, f.err
	}
	f.hosts = append(f.hosts, spec)
	return dock.Host{Name: spec.Name, Address: "10.231.1.1"}, nil
}

func (f *fakeHosts) DeleteHost(_ context.Context, name string) error {
	f.hosts = slices.DeleteFunc(f.hosts, func(h dock.HostSpec) bool { return h.Name == name })
	return f.err
}

func (f *fakeHosts) ListHosts(context.Context) (hosts []dock.Host, err error) {
	for _, h := range f.hosts {
		hosts = append(hosts, dock.Host{Name: h.Name})
	}
	return hosts, f.err
}

func TestSupplier(t *testing.T) {
	fake := &fakeHosts{}
	s := supplier{fake, func() []string { return []string{"v1.36.3"} }}
	if got := s.Versions(); !slices.Equal(got, []string{"v1.36.3"}) {
		t.Errorf("the versions are %q", got)
	}
	address, err := s.PowerOn(t.Context(), "host-01", []byte("token"))
	if err != nil || address != "10.231.1.1" {
		t.Fatalf("address %q, error %v", address, err)
	}
	// The configuration contains a token, so only its owner may read it.
	want := []dock.HostSpec{{Name: "host-01", Files: []dock.File{{Path: "/etc/capstan/agent.yaml", Mode: 0o600,
		Data: []byte("token")}}}}
	if !reflect.DeepEqual(fake.hosts, want) {
		t.Errorf("the dock has %+v, want %+v", fake.hosts, want)
	}
	if names, err := s.List(t.Context()); err != nil || !slices.Equal(names, []string{"host-01"}) {
		t.Errorf("hosts %q, error %v", names, err)
	}
	if err := s.Destroy(t.Context(), "host-01"); err != nil || len(fake.hosts) != 0 {
		t.Errorf("after the host was destroyed, the dock has %+v, error %v", fake.hosts, err)
	}

	fake.err = errors.New("the disk is full")
	if _, err := s.PowerOn(t.Context(), "host-01", nil); !errors.Is(err, fake.err) {
		t.Errorf("PowerOn with a dock that fails: got error %v", err)
	}
	if _, err := s.List(t.Context()); !errors.Is(err, fake.err) {
		t.Errorf("List with a dock that fails: got error %v", err)
	}
	if err := s.Destroy(t.Context(), "host-01"); !errors.Is(err, fake.err) {
		t.Errorf("Destroy with a dock that fails: got error %v", err)
	}
}

func TestAgentServer(t *testing.T) {
	if got, want := agentServer(), "https://10.231.0.1:7443"; got != want {
		t.Errorf("agents reach %s, want %s", got, want)
	}
}
