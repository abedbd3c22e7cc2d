package token

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// server issues tokens by its own clock.
type server struct {
	now    time.Time
	ends   map[string]time.Time
	serial int
}

func (s *server) grant() string {
	s.serial++
	text := jwt(s.now, s.now.Add(24*time.Hour).Add(time.Duration(s.serial%2)*time.Second))
	s.ends[text] = s.now.Add(24 * time.Hour)
	return text
}

func (s *server) accepts(text string) bool { return s.now.Before(s.ends[text]) }

// TestDecadesOfRenewals simulates a host for decades. The host renews its token every eight hours. It survives a wrong
// clock, and a plane that is away for less than the token's remaining life. Only an absence longer than a token's life
// ends the host's identity: then the agent reports this and changes nothing. A new enrolment fixes that, however late.
func TestDecadesOfRenewals(t *testing.T) {
	s := &server{now: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), ends: map[string]time.Time{}}
	configured := s.grant()
	skew := time.Duration(0) // of the host's clock
	k, err := Open(filepath.Join(memory(t), "token"), func() (string, error) { return configured, nil })
	if err != nil {
		t.Fatal(err)
	}
	k.now = func() time.Time { return s.now.Add(skew) }
	const years = 20
	renewals, enrolments := 0, 0
	for year := range years {
		for day := range 365 {
			away := map[int]time.Duration{100: 14 * time.Hour, 200: 7 * 24 * time.Hour}[day]
			skew = 0
			if day > 300 && day < 310 { // the battery of the clock is empty
				skew = 400 * 24 * time.Hour
			}
			s.now = s.now.Add(away)
			for range 24 {
				if !s.accepts(k.Token()) {
					k.Reject(k.Token())
				}
				if !s.accepts(k.Token()) {
					if away < 24*time.Hour {
						t.Fatalf("in year %d, on day %d, the identity is lost after %s", year, day, away)
					}
					configured = s.grant() // somebody enrolls the host again
					enrolments++
					k.Reject(k.Token())
					if !s.accepts(k.Token()) {
						t.Fatalf("in year %d, on day %d, a new enrolment does not help", year, day)
					}
				}
				if k.RenewIn() == 0 {
					if err := k.Keep(s.grant()); err != nil {
						t.Fatal(err)
					}
					renewals++
				}
				s.now = s.now.Add(time.Hour)
			}
		}
	}
	if enrolments != years || renewals < years*365*2 || len(k.rejected) > 17 {
		t.Errorf("%d enrolments, %d renewals, %d rejected tokens are remembered", enrolments, renewals, len(k.rejected))
	}
	t.Logf("%d renewals in %d years, %d enrolments after a week away", renewals, years, enrolments)
}

// memory returns an in-memory directory if there is one, because each renewal is synced to disk.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "capstan-token-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
