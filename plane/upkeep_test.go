//go:build linux

package plane

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/plane/store"
)

// small simulates an etcd with a quota of 100 MiB. It counts the bytes of live values, of old values and of the file.
type small struct {
	live, old, file int64
	full            bool
	did             []string
	failAt          int
	calls           int
}

func (s *small) call(what string) error {
	if s.calls++; s.calls == s.failAt {
		return errors.New("broken")
	}
	if what != "" {
		s.did = append(s.did, what)
	}
	return nil
}

func (s *small) Usage(context.Context) (store.Usage, error) {
	return store.Usage{Size: s.file, InUse: s.live + s.old, Quota: 100 << 20, Full: s.full}, s.call("")
}

func (s *small) Compact(context.Context) error {
	err := s.call("compact")
	if err == nil {
		s.old = 0
	}
	return err
}

func (s *small) Defragment(context.Context) error {
	err := s.call("defragment")
	if err == nil {
		s.file = s.live + s.old
	}
	return err
}

func (s *small) Resume(context.Context) error {
	err := s.call("resume")
	if err == nil {
		s.full = false
	}
	return err
}

func TestKeeper(t *testing.T) {
	for name, c := range map[string]struct {
		etcd small
		did  string
		full bool
	}{
		"little was written":          {etcd: small{live: 5 << 20, old: 1 << 20, file: 8 << 20}},
		"one value was written often": {etcd: small{live: 1 << 20, old: 30 << 20, file: 32 << 20}, did: "compact"},
		"one value was written so often that the file grew": {
			etcd: small{live: 1 << 20, old: 70 << 20, file: 72 << 20}, did: "compact defragment",
		},
		"one value was written so often that etcd is full": {
			etcd: small{live: 1 << 20, old: 98 << 20, file: 100 << 20, full: true}, did: "compact defragment resume",
		},
		"etcd is full of needed data": {
			etcd: small{live: 97 << 20, file: 100 << 20, full: true}, did: "compact", full: true,
		},
		"etcd still has its alarm although its file is small": {
			etcd: small{live: 1 << 20, file: 1 << 20, full: true}, did: "compact resume",
		},
		"etcd is full, and values were deleted": {
			etcd: small{live: 40 << 20, old: 57 << 20, file: 100 << 20, full: true}, did: "compact defragment resume",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for failAt := range 8 { // each call fails once; the next look recovers
				etcd := c.etcd
				etcd.failAt = failAt
				k := keeper{etcd: &etcd}
				usage, err := k.look(t.Context())
				if err != nil {
					usage, err = k.look(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				if did := strings.Join(etcd.did, " "); failAt == 0 && did != c.did {
					t.Errorf("the keeper did %q, want %q", did, c.did)
				}
				if etcd.full != c.full || usage.Full != c.full || (usage.Warning() != "") != c.full {
					t.Errorf("failed at call %d: etcd full: %v, the warning is %q", failAt, etcd.full, usage.Warning())
				}
			}
		})
	}
}
