// Package token keeps the agent's credential: a short-lived token that it renews itself.
package token

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/atomicfile"
)

// Keeper holds the token in use. There may be two to choose from: the one of the configuration, which whoever enrolled
// the host wrote, and the one that the agent got by itself and keeps on disk. The newer one that is still valid and
// that the server accepts is used.
type Keeper struct {
	path       string
	configured func() (string, error)
	now        func() time.Time

	mu       sync.Mutex
	used     token
	rejected map[string]bool
	refused  chan struct{} // holds at most one
}

// token is a bearer token with what it says about itself.
type token struct {
	text            string
	issued, expires time.Time // zero if it does not say
	own             bool      // got by the agent itself
	secret          string    // that it is bound to; empty: none, or it does not say
}

// Open reads the tokens: configured returns that of the configuration (may be empty), path is where the agent's own is
// kept.
func Open(path string, configured func() (string, error)) (*Keeper, error) {
	k := &Keeper{path: path, configured: configured, now: time.Now, rejected: map[string]bool{},
		refused: make(chan struct{}, 1)}
	k.choose()
	if k.used.text == "" {
		return nil, errors.New("there is no token: enroll the host again, which writes one to the configuration")
	}
	return k, nil
}

// Token returns the token to use.
func (k *Keeper) Token() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used.text
}

// Reject is told that the server does not accept a token. The other one is tried, and the configuration read again:
// somebody may have enrolled the host anew.
func (k *Keeper) Reject(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if text != k.used.text {
		return // renewed or rejected meanwhile
	}
	if len(k.rejected) > 16 {
		clear(k.rejected)
	}
	k.rejected[text] = true
	k.choose()
	if k.rejected[k.used.text] {
		select {
		case k.refused <- struct{}{}:
		default:
		}
	}
}

// Refused returns a channel that holds a value after the server has refused the last token that there is.
func (k *Keeper) Refused() <-chan struct{} { return k.refused }

// Last returns the token in use, and whether the server has refused it: then there is no other one.
func (k *Keeper) Last() (text string, refused bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used.text, k.rejected[k.used.text]
}

// Keep takes a fresh token into use and writes it to disk.
func (k *Keeper) Keep(text string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = parse(text, true)
	if err := atomicfile.Write(k.path, []byte(text+"\n"), 0o600); err != nil {
		return fmt.Errorf("keeping the token: %w", err)
	}
	return nil
}

// RenewIn returns how long to wait before the token is renewed: until a third of its life has passed, and not at all
// for one that the agent did not get by itself.
func (k *Keeper) RenewIn() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.used.own {
		return 0
	}
	return k.used.renewIn(k.now())
}

// Secret returns the name of the Secret that the token in use is bound to, as it says itself; empty for none.
func (k *Keeper) Secret() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used.secret
}

// Secret returns the name of the Secret that a token is bound to, as it says itself; empty for none.
func Secret(text string) string { return parse(text, true).secret }

// RenewIn returns how long to wait before a token that the agent got by itself is renewed, as for one in a Keeper.
func RenewIn(text string, now time.Time) time.Duration { return parse(text, true).renewIn(now) }

func (t token) renewIn(now time.Time) time.Duration {
	if t.expires.IsZero() || t.issued.IsZero() {
		return 0
	}
	return max(0, t.issued.Add(t.expires.Sub(t.issued)/3).Sub(now))
}

// choose sets the token in use from what is on disk. Trouble with one of the files leaves the other; if there is
// nothing, the token stays.
func (k *Keeper) choose() {
	var found []token
	if data, err := os.ReadFile(k.path); err == nil {
		found = append(found, parse(strings.TrimSpace(string(data)), true))
	} else if !errors.Is(err, fs.ErrNotExist) && k.used.own {
		found = append(found, k.used)
	}
	if text, err := k.configured(); err == nil {
		found = append(found, parse(strings.TrimSpace(text), false))
	}
	best := -1
	for i, t := range found {
		if t.text != "" && (best < 0 || k.better(t, found[best])) {
			best = i
		}
	}
	if best >= 0 {
		k.used = found[best]
	}
}

// better reports whether a is to be used rather than b.
func (k *Keeper) better(a, b token) bool {
	if ra, rb := k.rejected[a.text], k.rejected[b.text]; ra != rb {
		return rb
	}
	if va, vb := a.valid(k.now()), b.valid(k.now()); va != vb {
		return va
	}
	return a.issued.After(b.issued)
}

func (t token) valid(now time.Time) bool { return t.expires.IsZero() || now.Before(t.expires) }

// parse reads what a JSON web token says of itself. It does not check the signature: only the server can. Other tokens
// say nothing.
func parse(text string, own bool) token {
	t := token{text: text, own: own}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return t
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return t
	}
	var claims struct {
		Issued  int64 `json:"iat"`
		Expires int64 `json:"exp"`
		Bound   struct {
			Secret struct {
				Name string `json:"name"`
			} `json:"secret"`
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return t
	}
	t.secret = claims.Bound.Secret.Name
	if claims.Issued > 0 {
		t.issued = time.Unix(claims.Issued, 0)
	}
	if claims.Expires > 0 {
		t.expires = time.Unix(claims.Expires, 0)
	}
	return t
}
