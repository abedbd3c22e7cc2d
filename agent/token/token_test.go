package token

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func jwt(issued, expires time.Time) string {
	payload := fmt.Sprintf(`{"iat":%d,"exp":%d}`, issued.Unix(), expires.Unix())
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func TestTheNewerValidTokenIsUsed(t *testing.T) {
	now := time.Now()
	older := jwt(now.Add(-2*time.Hour), now.Add(22*time.Hour))
	newer := jwt(now.Add(-time.Hour), now.Add(23*time.Hour))
	expired := jwt(now.Add(-time.Minute), now.Add(-time.Second))
	cases := map[string]struct {
		own, configured string
		rejected        []string
		want            string
	}{
		"only the configuration has a token":                 {"", older, nil, older},
		"only the disk has a token":                          {older, "", nil, older},
		"the agent's own token is newer":                     {newer, older, nil, newer},
		"the host was enrolled again":                        {older, newer, nil, newer},
		"an expired token loses although it is newer":        {older, expired, nil, older},
		"a rejected token loses although it is newer":        {newer, older, []string{newer}, older},
		"if both are rejected, the newer one is used":        {newer, older, []string{newer, older}, newer},
		"a token without times is used if there is no other": {"", "opaque", nil, "opaque"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if c.own != "" {
				if err := os.WriteFile(path, []byte(c.own+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			k, err := Open(path, func() (string, error) { return c.configured, nil })
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range c.rejected {
				k.Reject(r)
			}
			if got := k.Token(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNoTokenAtAll(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "token"), func() (string, error) { return "", errors.New("no file") })
	if err == nil {
		t.Fatal("an agent without a token was accepted")
	}
}

func TestRenewal(t *testing.T) {
	now := time.Now()
	path := filepath.Join(t.TempDir(), "token")
	k, err := Open(path, func() (string, error) { return jwt(now, now.Add(24*time.Hour)), nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := k.RenewIn(); got != 0 {
		t.Errorf("the token of the enrolment is renewed in %s, want at once", got)
	}
	if err := k.Keep(jwt(now, now.Add(24*time.Hour))); err != nil {
		t.Fatal(err)
	}
	if got := k.RenewIn().Round(time.Minute); got != 8*time.Hour {
		t.Errorf("the agent's own token is renewed in %s, want a third of 24h", got)
	}
	k.now = func() time.Time { return now.Add(9 * time.Hour) }
	if got := k.RenewIn(); got != 0 {
		t.Errorf("the overdue token is renewed in %s, want at once", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kept token: %v %v", info, err)
	}
}
