package local

import (
	"net"
	"slices"
	"strings"
	"testing"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
	"github.com/capstan-dev/capstan/dock"
	"github.com/capstan-dev/capstan/internal/hint"
	"github.com/capstan-dev/capstan/internal/home"
)

// TestUpListens: the plane is published at the requested address, again at the next start, and no longer once the
// request is withdrawn.
func TestUpListens(t *testing.T) {
	address := ownAddress(t)
	w := newWorld(t, steady)
	w.register(inPhase(infrav1.HostOff)...)
	ctx := limit(t)
	free, err := net.Listen("tcp4", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	published := func() (all []string) {
		t.Helper()
		docked := dock.Connect(w.Home)
		defer docked.Close()
		s, err := docked.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.Relays {
			if r.Name == publishedServer || r.Name == publishedEnrolment {
				all = append(all, r.Local+" "+r.Target+" "+r.Error)
			}
		}
		return all
	}
	plane, err := w.up(ctx, UpOptions{Hosts: 1})
	if err != nil || plane.Listen != "" || len(published()) != 0 {
		t.Fatalf("Up without --listen: got %+v, error %v", plane, err)
	}
	somewhere, nowhere := at, ""
	_, err = w.up(ctx, UpOptions{Listen: new(string), Names: []string{"a.example"}})
	if err == nil || hint.Of(err) == "" {
		t.Errorf("Up with names but no address: got error %v, want one with a hint", err)
	}
	plane, err = w.up(ctx, UpOptions{Listen: &somewhere})
	if err != nil || plane.Listen != "https://"+at || !strings.HasPrefix(plane.Enrolment, "https://"+address+":") {
		t.Fatalf("Up with --listen: got %+v, error %v", plane, err)
	}
	first := published()
	if len(first) != 2 || !slices.ContainsFunc(first, func(r string) bool { return r == at+" 127.0.0.1:7443 " }) {
		t.Errorf("the dock has published %q", first)
	}
	if again, err := w.up(ctx, UpOptions{}); err != nil || again != plane || !slices.Equal(published(), first) {
		t.Errorf("the next Up: got %+v, error %v, published %q", again, err, published())
	}
	if s, err := Status(ctx, w.Place); err != nil || s.Listen != plane.Listen || s.Enrolment != plane.Enrolment {
		t.Errorf("the status is %+v, %v", s, err)
	}
	if plane, err = w.up(ctx, UpOptions{Listen: &nowhere}); err != nil || plane.Listen != "" || len(published()) != 0 {
		t.Errorf("Up after the request was withdrawn: got %+v, error %v, published %q", plane, err, published())
	}
}

func TestThePlaneIsToldWhereToListen(t *testing.T) {
	s := &starter{home: home.Dir(t.TempDir()), hosts: 3}
	if argv := s.unit("127.0.0.1:1").Argv; slices.Contains(argv, "--listen") {
		t.Errorf("without a choice, the plane is run as %q", argv)
	}
	s.listen = Listen{Address: "192.0.2.1:7443", Names: []string{"a.example", "b.example"}}
	want := "--listen 192.0.2.1:7443 --tls-san a.example --tls-san b.example"
	if argv := strings.Join(s.unit("127.0.0.1:1").Argv, " "); !strings.HasSuffix(argv, want) {
		t.Errorf("the plane is run as %q", argv)
	}
}
