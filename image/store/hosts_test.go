//go:build linux

package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/image/store"
)

var alice, bob = store.Host{Name: "alice", ID: "aaaaaaaa"}, store.Host{Name: "bob", ID: "bbbbbbbb"}

func TestHostsSeeWhatIsLoadedAndWhatTheyHold(t *testing.T) {
	ctx := context.Background()
	s := open(t, store.Options{})
	const name, private = "docker.io/library/web:1", "registry.example.com/private:1"
	img := load(t, s, makeImage(t, same, nil, tarOf("a", "1")).layout(t, "web:1"))[0]
	secret := load(t, s, makeImage(t, same, nil, tarOf("b", "1")).layout(t, "tmp:1"))[0]
	if err := errors.Join(s.Hold(alice, private, secret.Digest), s.Untag("docker.io/library/tmp:1")); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{private, secret.ID, secret.Digest, "registry.example.com/private@" + secret.Digest} {
		if _, err := s.HostFind(ctx, bob, ref); err == nil {
			t.Errorf("bob sees %s of alice", ref)
		}
	}
	for _, ref := range []string{name, img.ID, img.Digest, "docker.io/library/web@" + img.Digest} {
		got, err := s.HostFind(ctx, bob, ref)
		if err != nil || len(got.Config) == 0 || len(got.Layers) != 1 {
			t.Errorf("%s: bob gets %+v, %v", ref, got, err)
		}
	}
	if _, err := s.HostFind(ctx, alice, "registry.example.com/private@"+secret.Digest); err != nil {
		t.Errorf("alice pulled the image by its tag, but does not see it by its digest: %v", err)
	}
	if _, err := s.HostFind(ctx, alice, "registry.example.com/other@"+secret.Digest); err == nil {
		t.Error("alice sees the image in a repository that it did not come from")
	}
	if got := s.HostList(alice); len(got) != 2 {
		t.Errorf("alice sees %+v", got)
	}
	for _, got := range s.HostList(alice) {
		if loaded := got.Digest == img.Digest; got.Pinned != loaded {
			t.Errorf("image %v of alice is pinned: %t, want only what the user loaded pinned", got.Names, got.Pinned)
		}
	}
	if got := s.HostList(bob); len(got) != 1 || got[0].Digest != img.Digest {
		t.Errorf("bob sees %+v", got)
	}
	// A host can't remove what another host holds.
	for _, ref := range []string{private, name} {
		if err := s.HostRemove(bob, ref); err != nil {
			t.Error(err)
		}
	}
	if got := s.HostList(alice); len(got) != 2 {
		t.Errorf("after bob removed all images, alice sees %+v", got)
	}
	if got := s.HostList(bob); len(got) != 0 {
		t.Errorf("after bob removed all images, bob sees %+v", got)
	}
	if _, is, err := s.Unhide(bob, name); err != nil || !is {
		t.Errorf("bob can't get the image again: %v", err)
	}
	if _, err := s.HostFind(ctx, bob, name); err != nil {
		t.Errorf("bob can't get the image again: %v", err)
	}
	// An image in use by a host outlives its name.
	if err := s.Untag(name); err != nil {
		t.Fatal(err)
	}
	if got, err := s.HostFind(ctx, bob, img.Digest); err != nil || len(got.Names) != 0 || got.Pinned {
		t.Errorf("the image that bob holds is %+v, %v", got, err)
	}
	if err := s.Untag(img.Digest); err == nil || !strings.Contains(err.Error(), "bob holds it") {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(s.HostRemove(bob, img.Digest), s.HostRemove(alice, private)); err != nil {
		t.Fatal(err)
	}
	if left := s.List(); len(left) != 0 {
		t.Errorf("the store still has %+v, which no host holds", left)
	}
}

// A host that is created again under the same name does not hold its predecessor's images.
func TestHostsThatAreGoneHoldNothing(t *testing.T) {
	hosts := t.TempDir()
	id := filepath.Join(hosts, "alice", "images", "id")
	if err := os.MkdirAll(filepath.Dir(id), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(id, []byte(alice.ID+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, store.Options{HostsDir: hosts})
	img := load(t, s, makeImage(t, same, nil, tarOf("a", "1")).layout(t, "web:1"))[0]
	if err := errors.Join(s.Hold(alice, "x.example.com/y:1", img.Digest), s.Untag("docker.io/library/web:1")); err != nil {
		t.Fatal(err)
	}
	if len(s.List()) != 1 {
		t.Fatal("the image that alice holds is gone")
	}
	if err := os.WriteFile(id, []byte("cccccccc"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Collect()
	if left := s.List(); len(left) != 0 {
		t.Errorf("the store still has %+v", left)
	}
}
